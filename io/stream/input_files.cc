// SPDX-License-Identifier: Apache-2.0
#include "io/stream/input_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "io/base/crc32c.h"
#include "io/base/random.h"
#include "io/base/string_hash.h"
#include "io/example/feature_view.h"
#include "io/record/byte_source.h"
#include "io/record/remote_files.h"
#include "io/table/table_query.h"

namespace millrace::io {
namespace {

constexpr size_t kFingerprintBytes = 4096;  // from each end of a file

// The size and the version of a remote file.
uint64_t RemoteFingerprint(const std::string& name) {
  const Result<RemoteFile> file = FindRemoteFile(name);
  if (!file.ok()) return 0;
  const std::string& version = file->etag.empty() ? file->last_modified : file->etag;
  return Mix64(static_cast<uint64_t>(file->bytes)) ^ Crc32c(version.data(), version.size());
}

// The size of a regular file and the CRC of both ends; of a query: its text.
uint64_t FileFingerprint(const std::string& path) {
  if (IsQuery(path)) return HashString(path);
  if (IsRemote(path)) return RemoteFingerprint(path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char bytes[kFingerprintBytes];
  uint32_t crc = 0;
  for (const off_t at : {off_t{0}, std::max<off_t>(0, info.st_size - off_t{kFingerprintBytes})}) {
    const ssize_t got = ::pread(fd, bytes, sizeof bytes, at);
    if (got > 0) crc = Crc32c(bytes, static_cast<size_t>(got), crc);
  }
  ::close(fd);
  return Mix64(static_cast<uint64_t>(info.st_size)) ^ crc;
}

Status CheckFile(const std::string& file) {
  struct stat info {};
  if (file == "-" || IsQuery(file) || IsRemote(file)) return {};
  if (::stat(file.c_str(), &info) != 0) return IoError(file + ": cannot open", errno);
  if (S_ISDIR(info.st_mode)) return DirectoryError(file);
  if (::access(file.c_str(), R_OK) != 0) return IoError(file + ": cannot open", errno);
  return {};
}

}  // namespace

Status CheckInputFiles(const std::vector<std::string>& files) {
  for (const std::string& file : files) RETURN_IF_ERROR(CheckFile(file));
  return FindRemoteFiles(files);
}

Status CheckReadableAgain(const std::vector<std::string>& files, const std::string& expected) {
  for (const std::string& file : files) {
    struct stat info {};
    if (file == "-") return Invalid("standard input can be read once only: expected " + expected);
    if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return Invalid(file + ": a pipe can be read once only: expected " + expected);
  }
  return {};
}

uint64_t PlainBytes(const std::vector<std::string>& files) {
  uint64_t sum = 0;
  for (const std::string& file : files) {
    const int64_t bytes = FileBytes(file);
    if (bytes < 0) return 0;
    sum += static_cast<uint64_t>(bytes);
  }
  const auto first = OpenSource(files.front(), /*regular_file=*/true);
  return first.ok() && first->compression == Compression::kNone ? sum : 0;
}

uint64_t FingerprintOf(const std::vector<std::string>& files) {
  uint64_t print = files.size();
  for (const std::string& file : files) print = Mix64(print + FileFingerprint(file));
  return print;
}

namespace {

// Bytes to search: of all files together, unless there are very many, and of each at least.
constexpr uint64_t kSearchBytes = 128 << 20;
constexpr uint64_t kMinFileBytes = 64 << 10;

struct Wanted {
  std::string what;  // "value feature"
  std::string name;
  std::string advice;  // if it is in no record
  size_t column = 0;   // of the rows of the reader, if there is one
};

class FeatureSearch {
 public:
  // Without `reader`: in the features of tf.Examples.
  FeatureSearch(std::vector<Wanted> wanted, Framing framing, ColumnReader* reader)
      : wanted_(std::move(wanted)), framing_(framing), reader_(reader) {}

  bool done() const { return wanted_.empty(); }

  void SearchFile(const std::string& file, uint64_t bytes) {
    const auto reader =
        BlockReader::Open(file, {.framing = framing_, .block_bytes = kMinFileBytes});
    Block block;
    if (!reader.ok()) return;
    for (uint64_t searched = 0; searched < bytes && !done(); searched += block.bytes.size()) {
      const Result<bool> more = (*reader)->Next(block);
      if (!more.ok() || !*more) break;
      for (size_t i = 0; i < block.records.size() && !done(); ++i) SearchRecord(file, block, i);
    }
    ++files_;
  }

  Status Outcome() const {
    if (done() || records_ == 0) return {};
    return Invalid(first_ + ": " + wanted_[0].what + " '" + wanted_[0].name +
                   "': expected it in some record, found it in none of the first " +
                   std::to_string(records_) + " of " + std::to_string(files_) +
                   (files_ == 1 ? " file" : " files") + first_features_ + ": correct " +
                   wanted_[0].advice);
  }

 private:
  void SearchRecord(const std::string& file, const Block& block, size_t i) {
    const std::string_view record = block.record(i);
    const bool is_example = framing_ == Framing::kTfRecord && ParseExample(record, view_).ok();
    const Result<bool> is_row = reader_ ? reader_->Read(record, row_) : Result<bool>(is_example);
    if (!is_row.ok() || !*is_row) return;
    if (records_++ == 0) {
      first_ = file + ": offset " + std::to_string(block.offset(i, framing_));
      if (is_example) first_features_ = "; this record has " + ListFeatures(view_);
    }
    std::erase_if(wanted_, [&](const Wanted& wanted) {
      return reader_ ? !row_.column(wanted.column).empty() : view_.Find(wanted.name) != nullptr;
    });
  }

  std::vector<Wanted> wanted_;
  Framing framing_;
  ColumnReader* reader_;
  FieldRow row_;
  ExampleView view_;
  uint64_t files_ = 0;    // searched so far
  uint64_t records_ = 0;  // searched so far
  std::string first_, first_features_;
};

Status SearchFiles(const std::vector<std::string>& files, std::vector<Wanted> wanted,
                   Framing framing = Framing::kTfRecord, ColumnReader* reader = nullptr) {
  FeatureSearch search(std::move(wanted), framing, reader);
  const uint64_t share = std::max(kMinFileBytes, kSearchBytes / std::max<size_t>(files.size(), 1));
  for (const std::string& file : files) {
    if (search.done()) break;
    if (IsRegularInput(file)) search.SearchFile(file, share);
  }
  return search.Outcome();
}

}  // namespace

Status CheckNamedFeatures(const std::vector<std::string>& files, const FeatureNames& names) {
  std::vector<Wanted> wanted;
  if (names.value != FeatureNames{}.value && !names.value.empty()) {
    wanted.push_back({"value feature", names.value, "the option value_feature"});
  }
  if (names.weight != kWeightFeature && !names.weight.empty()) {
    wanted.push_back({"weight feature", names.weight, "the option weight_feature"});
  }
  if (names.field != FeatureNames{}.field && !names.field.empty()) {
    wanted.push_back({"field feature", names.field, "the option field_feature"});
  }
  return SearchFiles(files, std::move(wanted));
}

Status CheckColumns(const std::vector<std::string>& files, Framing framing,
                    const std::vector<std::string>& columns, ColumnReader& reader) {
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < columns.size(); ++i) {
    wanted.push_back({"column", columns[i], "the feature spec", i});
  }
  return SearchFiles(files, std::move(wanted), framing, &reader);
}

}  // namespace millrace::io
