// SPDX-License-Identifier: Apache-2.0
// HTTP requests that are repeated until they succeed. One thread serves all of them, so any number
// may run at the same time. The only part that knows libcurl.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/remote_options.h"

namespace millrace::io {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers = {};  // "Range: bytes=0-99"
  // Signed with the credentials, if there are any; redirects are errors.
  bool is_s3 = false;
};

// The status and the headers of a response that tell something about a file.
struct HttpResponse {
  int status = 0;
  int64_t body_bytes = -1;  // -1: unknown
  bool is_chunked = false;  // the end of the body can be told from a lost connection
  int retry_after_s = 0;
  std::string etag, last_modified, content_range, bucket_region;
};

// One request. Its functions are called on the client's thread and must not block.
class HttpTask {
 public:
  virtual ~HttpTask() = default;
  // The request of the next attempt.
  virtual HttpRequest NextRequest() = 0;
  // The response has a status of 200 to 299, or 416. False: its body is not needed, the task has
  // succeeded. An error is final.
  virtual Result<bool> OnHeaders(const HttpResponse& response) = 0;
  // False: no room now. The same bytes come again after HttpClient::Continue. An error is final.
  virtual Result<bool> OnBody(std::span<const char> bytes) = 0;
  // Whether the body that has ended was complete; if not, there is another attempt.
  virtual bool IsComplete() const = 0;
  // The task has succeeded or failed for good; the client does not use it any more.
  virtual void OnEnd(const Status& status) = 0;
};

// Call it before a static object that holds a client is complete, so that libcurl and its TLS
// library outlive the object.
void PrepareHttp();

// Thread-safe. Tasks outlive their use: until OnEnd, or until Cancel returns.
class HttpClient {
 public:
  // An error if the build has no libcurl.
  static Result<std::unique_ptr<HttpClient>> Create(const RemoteOptions& options);
  virtual ~HttpClient() = default;

  // Messages call the file `name`.
  virtual void Start(HttpTask& task, const std::string& name) = 0;
  virtual void Continue(HttpTask& task) = 0;
  // Not from a function of a task.
  virtual void Cancel(HttpTask& task) = 0;
};

}  // namespace millrace::io
