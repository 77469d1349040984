// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/output/console.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "io/base/printable.h"
#include "io/base/regular_file.h"
#include "io/base/status.h"

namespace millrace::launch {
namespace {

bool HasRoom(int fd) {
  pollfd poll_fd = {fd, POLLOUT, 0};
  return ::poll(&poll_fd, 1, 0) > 0;
}

constexpr size_t kFullBytes = 1 << 20;
constexpr size_t kMaxHeld = 10000;  // lines
constexpr const char* kColors[] = {"\033[32m", "\033[33m", "\033[34m",
                                   "\033[35m", "\033[36m", "\033[31m"};
constexpr char kNoColor[] = "\033[0m";

}  // namespace

void NonblockingWriter::Flush() {
  while (backlog() > 0 && HasRoom(fd_)) {
    // poll reports a pipe as writable if at least PIPE_BUF bytes fit.
    const size_t size = std::min<size_t>(backlog(), PIPE_BUF);
    const ssize_t written = ::write(fd_, pending_.data() + written_, size);
    if (written >= 0) {
      written_ += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      Fail(errno, size);
    }
  }
  if (backlog() == 0) return Clear();
  // A slow reader can keep a backlog for the whole job.
  if (written_ >= kFullBytes) pending_.erase(0, std::exchange(written_, 0));
}

void NonblockingWriter::Fail(int error, size_t bytes) {
  // After these three errors a later write can succeed.
  is_closed_ = error != ENOSPC && error != EDQUOT && error != EFBIG;
  if (lost_bytes_ == 0) {
    error_ = IoError(name_ + ": cannot write", error).message() +
             "; the job continues without this output";
  }
  if (is_closed_) bytes = backlog();
  lost_bytes_ += bytes;
  written_ += bytes;
}

Result<Console> Console::Create(const ConsoleOptions& options,
                                const std::vector<std::string>& names) {
  Console console(options);
  size_t width = options.name_width;
  for (const std::string& name : names) width = std::max(width, name.size());
  if (!options.log_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.log_dir, error);
    if (error) return IoError(options.log_dir + ": cannot create the folder", error.value());
  }
  for (const std::string& name : names) {
    Channel channel;
    channel.prefix = name + std::string(width - name.size(), ' ') + " | ";
    channel.color = kColors[console.channels_.size() % std::size(kColors)];
    if (!options.log_dir.empty()) RETURN_IF_ERROR(console.OpenLog(name, channel));
    console.channels_.push_back(std::move(channel));
  }
  return Result<Console>(std::move(console));
}

Console::Console(const ConsoleOptions& options)
    : options_(options),
      out_(options.out, "standard output"),
      err_(options.err, "standard error") {}

Status Console::OpenLog(const std::string& name, Channel& channel) {
  std::string file_name = name;
  std::replace(file_name.begin(), file_name.end(), ' ', '-');
  const std::string path = options_.log_dir + "/" + file_name + ".log";
  // A link could lead to a file of another user, and a FIFO would block.
  ASSIGN_OR_RETURN(const int fd,
                   OpenRegularFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW));
  channel.log_fd = UniqueFd(fd);
  channel.log.emplace(channel.log_fd.get(), path);
  return {};
}

void Console::ProcessLine(size_t channel, Stream stream, std::string_view line) {
  if (channels_[channel].log) channels_[channel].log->Append(std::string(line) + "\n");
  if (!is_held_) return Show(channel, stream, line);
  held_.push_back({channel, stream, std::string(line)});
  if (held_.size() > kMaxHeld) Release();
}

void Console::Show(size_t channel, Stream stream, std::string_view line) {
  const Channel& from = channels_[channel];
  const bool is_out = stream == Stream::kOut;
  const bool has_color = is_out ? options_.color_out : options_.color_err;
  const std::string prefix = has_color ? from.color + from.prefix + kNoColor : from.prefix;
  (is_out ? out_ : err_).Append(prefix + Printable(line) + "\n");
}

void Console::Note(std::string_view message) {
  err_.Append("millrace-launch: " + Printable(message) + "\n");
}

void Console::Print(std::string_view text) { out_.Append(PrintableLines(text)); }

void Console::Release() {
  is_held_ = false;
  for (const HeldLine& held : std::exchange(held_, {})) Show(held.channel, held.stream, held.line);
}

bool Console::is_full() const { return out_.backlog() > kFullBytes || err_.backlog() > kFullBytes; }

void Console::Flush() {
  out_.Flush();
  err_.Flush();
  NoteError(out_);
  NoteError(err_);
  for (Channel& channel : channels_) {
    if (!channel.log || channel.log->backlog() == 0) continue;
    channel.log->Flush();
    NoteError(*channel.log);
  }
  err_.Flush();
}

void Console::CloseOutputs() {
  out_.Close();
  err_.Close();
}

void Console::NoteError(NonblockingWriter& from) {
  const std::string error = from.TakeError();
  if (!error.empty()) Note(error);
}

void Console::ReportLostBytes() {
  for (const Channel& channel : channels_) {
    if (!channel.log || channel.log->lost_bytes() == 0) continue;
    Note("the log of " + channel.prefix.substr(0, channel.prefix.find(" |")) + " is missing " +
         std::to_string(channel.log->lost_bytes()) + " bytes");
  }
}

}  // namespace millrace::launch
