// SPDX-License-Identifier: Apache-2.0
// The bytes of one remote file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/record/http_client.h"

namespace millrace::io {

// One version of a file.
struct RemoteFile {
  std::string url;
  bool is_s3 = false;
  int64_t bytes = -1;  // -1: unknown
  std::string etag;
  std::string last_modified;
  bool has_ranges = false;  // the server sends parts of it
};

// Reads `file` from its begin to its end; messages call it `name`. Another version of it is an
// error. With ranges, several are fetched at the same time, ahead of the reader; otherwise the file
// is one response, and a response that breaks off is read again from its begin and compared with
// what was delivered. The client outlives the source.
std::unique_ptr<ByteSource> ReadRemoteFile(HttpClient& client, const RemoteFile& file,
                                           const std::string& name, const RemoteOptions& options);

// The request for `file` as the server stores it now, without conditions.
HttpRequest RequestFor(const RemoteFile& file);

// "bytes 0-99/1234".
struct ContentRange {
  int64_t begin = 0, end = 0;  // the byte after the last one
  int64_t total = -1;          // -1: unknown ("*")
};
Result<ContentRange> ParseContentRange(const std::string& text);

// A task that a thread waits for.
class WaitedTask : public HttpTask {
 public:
  void OnEnd(const Status& status) final {
    const std::lock_guard lock(mu_);
    outcome_ = status;
    is_done_ = true;
    done_.notify_all();
  }
  Status Wait() {
    std::unique_lock lock(mu_);
    done_.wait(lock, [&] { return is_done_; });
    return outcome_;
  }
  bool is_done() {
    const std::lock_guard lock(mu_);
    return is_done_;
  }
  void Reset() {
    const std::lock_guard lock(mu_);
    is_done_ = false;
    outcome_ = {};
  }

 private:
  std::mutex mu_;
  std::condition_variable done_;
  bool is_done_ = false;  // mu_
  Status outcome_;        // mu_
};

}  // namespace millrace::io
