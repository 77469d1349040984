// SPDX-License-Identifier: Apache-2.0
#include "io/record/remote_source.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "io/base/crc32c.h"
#include "io/base/printable.h"
#include "io/base/raw_buffer.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

// The first range is what a look at the file needs.
constexpr size_t kFirstRangeBytes = kFirstBytes;
constexpr size_t kRangeGrowth = 4;
constexpr size_t kMaxStreamBytes = 8 << 20;  // that wait for the reader

Status Expected(const char* what, const std::string& expected, const std::string& found) {
  return {Code::kIo, std::string(what) + ": expected " + expected + ", found " +
                         (found.empty() ? "none" : Printable(found))};
}

// The headers must be those of the version that was found first.
Status CheckVersion(const RemoteFile& file, const HttpResponse& response) {
  if (response.etag != file.etag)
    return Expected("the file has changed since it was opened: ETag", file.etag, response.etag);
  if (file.etag.empty() && response.last_modified != file.last_modified)
    return Expected("the file has changed since it was opened: Last-Modified", file.last_modified,
                    response.last_modified);
  return {};
}

HttpRequest RequestForVersion(const RemoteFile& file) {
  HttpRequest request = RequestFor(file);
  const bool is_strong = !file.etag.empty() && !file.etag.starts_with("W/");
  if (is_strong) request.headers.push_back("If-Match: " + file.etag);
  return request;
}

// The bytes from `begin` to `end`. A later attempt asks for what is missing.
class Range final : public WaitedTask {
 public:
  explicit Range(const RemoteFile& file) : file_(file) {}

  void Set(int64_t begin, int64_t end) {
    Reset();
    begin_ = begin;
    end_ = end;
    filled_ = 0;
    bytes_.Resize(size());
  }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }
  const char* data() const { return bytes_.data(); }

  HttpRequest NextRequest() override {
    HttpRequest request = RequestForVersion(file_);
    request.headers.push_back("Range: bytes=" + std::to_string(next()) + "-" +
                              std::to_string(end_ - 1));
    return request;
  }

  Result<bool> OnHeaders(const HttpResponse& response) override {
    if (response.status != 206)
      return Status(Code::kIo, "expected a part of the file (HTTP 206), found HTTP " +
                                   std::to_string(response.status));
    RETURN_IF_ERROR(CheckVersion(file_, response));
    ASSIGN_OR_RETURN(const ContentRange range, ParseContentRange(response.content_range));
    if (range.total != file_.bytes)
      return Expected("the file has changed since it was opened: size", std::to_string(file_.bytes),
                      std::to_string(range.total));
    const bool fits = range.begin == next() && range.end > range.begin && range.end <= end_;
    if (!fits)
      return Expected("Content-Range",
                      "bytes " + std::to_string(next()) + "-" + std::to_string(end_ - 1),
                      response.content_range);
    part_end_ = range.end;
    return true;
  }

  Result<bool> OnBody(std::span<const char> bytes) override {
    if (static_cast<int64_t>(bytes.size()) > part_end_ - next())
      return Expected("body", "the bytes of its Content-Range", "more");
    std::memcpy(bytes_.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return true;
  }

  bool IsComplete() const override { return filled_ == size(); }

 private:
  int64_t next() const { return begin_ + static_cast<int64_t>(filled_); }

  const RemoteFile& file_;
  int64_t begin_ = 0, end_ = 0;
  int64_t part_end_ = 0;  // of this response
  size_t filled_ = 0;
  RawBuffer bytes_;
};

class RangeSource final : public ByteSource {
 public:
  RangeSource(HttpClient& client, RemoteFile file, std::string name, const RemoteOptions& options)
      : client_(client),
        file_(std::move(file)),
        name_(std::move(name)),
        max_range_bytes_(std::max<size_t>(options.range_bytes, 1)),
        ranges_ahead_(std::max<size_t>(options.ranges_ahead, 1)),
        range_bytes_(std::min(kFirstRangeBytes, max_range_bytes_)) {}
  ~RangeSource() override {
    for (const auto& range : ranges_) {
      if (!range->is_done()) client_.Cancel(*range);
    }
  }

  Status Read(std::span<char> out, size_t* delivered) override {
    *delivered = 0;
    while (*delivered < out.size() && position_ < file_.bytes) {
      if (ranges_.empty()) StartRanges(position_ == 0 ? 1 : ranges_ahead_);
      Range& range = *ranges_.front();
      if (!range.is_done()) {
        TRACE_SCOPE("remote_read", profiler::Cat::kNetwork);
        RETURN_IF_ERROR(range.Wait());
      }
      RETURN_IF_ERROR(range.Wait());
      const size_t size = std::min(out.size() - *delivered, range.size() - used_);
      std::memcpy(out.data() + *delivered, range.data() + used_, size);
      *delivered += size;
      position_ += static_cast<int64_t>(size);
      used_ += size;
      if (used_ == range.size()) DropFront();
    }
    return {};
  }

 private:
  void StartRanges(size_t most) {
    while (ranges_.size() < most && requested_ < file_.bytes) {
      if (free_.empty()) free_.push_back(std::make_unique<Range>(file_));
      ranges_.push_back(std::move(free_.back()));
      free_.pop_back();
      const int64_t end = std::min(file_.bytes, requested_ + static_cast<int64_t>(range_bytes_));
      ranges_.back()->Set(requested_, end);
      requested_ = end;
      client_.Start(*ranges_.back(), name_);
      range_bytes_ = std::min(max_range_bytes_, range_bytes_ * kRangeGrowth);
    }
  }

  void DropFront() {
    free_.push_back(std::move(ranges_.front()));
    ranges_.pop_front();
    used_ = 0;
    // Not after the first range: it may be all that is needed.
    if (!ranges_.empty()) StartRanges(ranges_ahead_);
  }

  HttpClient& client_;
  const RemoteFile file_;
  const std::string name_;
  const size_t max_range_bytes_;
  const size_t ranges_ahead_;
  size_t range_bytes_;  // of the next range
  int64_t position_ = 0;
  int64_t requested_ = 0;  // up to here
  size_t used_ = 0;        // of the first range
  std::deque<std::unique_ptr<Range>> ranges_;
  std::vector<std::unique_ptr<Range>> free_;
};

// One response. After a break the next attempt starts at the begin: its bytes must have the CRC of
// those that were delivered.
class StreamSource final : public ByteSource, private HttpTask {
 public:
  StreamSource(HttpClient& client, RemoteFile file, const std::string& name)
      : client_(client), file_(std::move(file)) {
    client_.Start(*this, name);
  }
  ~StreamSource() override { client_.Cancel(*this); }

  Status Read(std::span<char> out, size_t* delivered) override {
    *delivered = 0;
    while (*delivered < out.size()) {
      if (used_ == taken_.size()) {
        bool is_end = false;
        RETURN_IF_ERROR(TakeMore(is_end));
        if (is_end) return {};
      }
      const size_t size = std::min(out.size() - *delivered, taken_.size() - used_);
      std::memcpy(out.data() + *delivered, taken_.data() + used_, size);
      *delivered += size;
      used_ += size;
    }
    return {};
  }

 private:
  Status TakeMore(bool& is_end) {
    TRACE_SCOPE("remote_read", profiler::Cat::kNetwork);
    bool was_full = false;
    taken_.clear();
    used_ = 0;
    {
      std::unique_lock lock(mu_);
      arrived_.wait(lock, [&] { return waiting_.size() > 0 || is_done_; });
      std::swap(taken_, waiting_);
      was_full = std::exchange(is_full_, false);
      is_end = taken_.size() == 0;
      if (is_end) return outcome_;
    }
    if (was_full) client_.Continue(*this);
    return {};
  }

  HttpRequest NextRequest() override {
    attempt_bytes_ = 0;
    attempt_crc_ = 0;
    return RequestForVersion(file_);
  }

  Result<bool> OnHeaders(const HttpResponse& response) override {
    if (response.status != 200)
      return Status(Code::kIo,
                    "expected the file (HTTP 200), found HTTP " + std::to_string(response.status));
    RETURN_IF_ERROR(CheckVersion(file_, response));
    if (response.body_bytes != file_.bytes)
      return Expected("the file has changed since it was opened: Content-Length",
                      std::to_string(file_.bytes), std::to_string(response.body_bytes));
    // Lost data must not look like the end.
    if (response.body_bytes < 0 && !response.is_chunked)
      return Expected("headers", "a Content-Length or Transfer-Encoding: chunked", "neither");
    return true;
  }

  Result<bool> OnBody(std::span<const char> bytes) override {
    const uint64_t known = std::min<uint64_t>(bytes.size(), received_ - attempt_bytes_);
    const std::span<const char> fresh = bytes.subspan(known);
    {
      const std::lock_guard lock(mu_);
      is_full_ = waiting_.size() > 0 && waiting_.size() + fresh.size() > kMaxStreamBytes;
      if (is_full_) return false;
    }
    attempt_bytes_ += known;
    attempt_crc_ = Crc32c(bytes.data(), known, attempt_crc_);
    if (attempt_bytes_ == received_ && attempt_crc_ != crc_)
      return Status(Code::kIo,
                    "the file has changed since it was opened: after a lost connection "
                    "its first " +
                        std::to_string(received_) + " bytes differ");
    if (fresh.empty()) return true;
    attempt_bytes_ += fresh.size();
    received_ += fresh.size();
    crc_ = attempt_crc_ = Crc32c(fresh.data(), fresh.size(), crc_);
    const std::lock_guard lock(mu_);
    waiting_.Append(fresh.data(), fresh.size());
    arrived_.notify_one();
    return true;
  }

  bool IsComplete() const override {
    return attempt_bytes_ == received_ &&
           (file_.bytes < 0 || received_ == static_cast<uint64_t>(file_.bytes));
  }

  void OnEnd(const Status& status) override {
    const std::lock_guard lock(mu_);
    is_done_ = true;
    outcome_ = status;
    arrived_.notify_one();
  }

  HttpClient& client_;
  const RemoteFile file_;
  // Of the client's thread:
  uint64_t received_ = 0, attempt_bytes_ = 0;
  uint32_t crc_ = 0, attempt_crc_ = 0;
  std::mutex mu_;
  std::condition_variable arrived_;
  RawBuffer waiting_;     // mu_
  bool is_full_ = false;  // mu_; the client waits for Continue
  bool is_done_ = false;  // mu_
  Status outcome_;        // mu_
  // Of the reader:
  RawBuffer taken_;
  size_t used_ = 0;
};

}  // namespace

HttpRequest RequestFor(const RemoteFile& file) {
  HttpRequest request = {.url = file.url, .headers = {}, .is_s3 = file.is_s3};
  // No transcoding on the way: the bytes as they are stored.
  if (!file.is_s3) request.headers.emplace_back("Accept-Encoding: identity");
  return request;
}

Result<ContentRange> ParseContentRange(const std::string& text) {
  const auto error = [&] { return Expected("Content-Range", "bytes FIRST-LAST/SIZE", text); };
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return error();
  const char* at = text.data() + kUnit.size();
  const char* const end = text.data() + text.size();
  ContentRange range;
  const auto number = [&](int64_t& value, char after) {
    const auto [next, problem] = std::from_chars(at, end, value);
    const bool good = problem == std::errc() && value >= 0 &&
                      (after == '\0' ? next == end : next != end && *next == after);
    at = good && after != '\0' ? next + 1 : next;
    return good;
  };
  int64_t last = 0;
  if (!number(range.begin, '-') || !number(last, '/')) return error();
  if (std::string_view(at, static_cast<size_t>(end - at)) != "*" && !number(range.total, '\0'))
    return error();
  if (last < range.begin || last == INT64_MAX || (range.total >= 0 && last >= range.total))
    return error();
  range.end = last + 1;
  return range;
}

std::unique_ptr<ByteSource> ReadRemoteFile(HttpClient& client, const RemoteFile& file,
                                           const std::string& name, const RemoteOptions& options) {
  if (file.bytes == 0) return std::make_unique<MemorySource>(std::string_view());
  if (file.has_ranges) return std::make_unique<RangeSource>(client, file, name, options);
  return std::make_unique<StreamSource>(client, file, name);
}

}  // namespace millrace::io
