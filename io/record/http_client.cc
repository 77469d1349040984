// SPDX-License-Identifier: Apache-2.0
#include "io/record/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "io/base/printable.h"
#include "io/base/random.h"
#include "io/record/s3.h"
#include "profiler/clock.h"

namespace millrace::io {
namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10;  // of one response, redirects included
constexpr size_t kMaxErrorBytes = 16 << 10;   // of the body of an error
constexpr long kReceiveBytes = 256 << 10;
constexpr long kMinBytesPerSecond = 1000;
constexpr long kMaxRedirects = 5;
constexpr long kIdleConnections = 64;
constexpr int kMaxRetryAfterS = 30;
// An attempt that brought this much is progress: the next one is a first one again.
constexpr uint64_t kProgressBytes = 64 << 10;
// A host that never answered is probably a wrong name: it is not tried for long.
constexpr int kMaxFirstContacts = 3;
constexpr int kAttemptsWithoutNote = 4;

bool IsTransient(int status) { return status >= 500 || status == 429 || status == 408; }

bool IsTransient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
      return true;
    default:
      return false;
  }
}

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// A task and its current attempt.
struct Transfer {
  HttpTask* task = nullptr;
  std::string name;
  CURL* easy = nullptr;  // during an attempt
  bool is_s3 = false;
  std::unique_ptr<curl_slist, FreeHeaders> headers;
  char error[CURL_ERROR_SIZE] = "";
  HttpResponse response;
  bool has_response = false;  // the final one, after redirects
  bool has_location = false;
  bool reads_body = false;
  bool is_stopped = false;  // nothing more is needed
  Status failure;           // final
  std::string error_body;
  size_t header_bytes = 0;
  uint64_t body_bytes = 0;  // of this attempt
  int failed_attempts = 0;
  double start_s = 0;  // of the next attempt
};

// "Name: value" if it is the header `name`.
std::optional<std::string> HeaderValue(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  if (::strncasecmp(line.data(), name.data(), name.size()) != 0) return std::nullopt;
  line.remove_prefix(name.size() + 1);
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const size_t end = line.find_last_not_of(" \t\r\n") + 1;
  return std::string(end > begin ? line.substr(begin, end - begin) : "");
}

void ReadHeader(std::string_view line, HttpResponse& response) {
  if (const auto etag = HeaderValue(line, "ETag")) response.etag = *etag;
  if (const auto modified = HeaderValue(line, "Last-Modified")) response.last_modified = *modified;
  if (const auto range = HeaderValue(line, "Content-Range")) response.content_range = *range;
  if (const auto region = HeaderValue(line, "x-amz-bucket-region"))
    response.bucket_region = *region;
  if (const auto encoding = HeaderValue(line, "Transfer-Encoding"))
    response.is_chunked = ::strcasecmp(encoding->c_str(), "chunked") == 0;
  if (const auto after = HeaderValue(line, "Retry-After"))
    std::from_chars(after->data(), after->data() + after->size(), response.retry_after_s);
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(const RemoteOptions& options)
      : options_(options), multi_(curl_multi_init()), random_(1) {
    if (!multi_) throw std::bad_alloc();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kIdleConnections);
    thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
  }
  ~CurlClient() override {
    thread_.request_stop();
    curl_multi_wakeup(multi_);
    thread_.join();
    for (Transfer& transfer : transfers_) EndAttempt(transfer);
    for (CURL* easy : idle_) curl_easy_cleanup(easy);
    curl_multi_cleanup(multi_);
  }

  void Start(HttpTask& task, const std::string& name) override {
    {
      const std::lock_guard lock(mu_);
      new_.emplace_back();
      new_.back().task = &task;
      new_.back().name = name;
    }
    curl_multi_wakeup(multi_);
  }

  void Continue(HttpTask& task) override {
    {
      const std::lock_guard lock(mu_);
      continued_.push_back(&task);
    }
    curl_multi_wakeup(multi_);
  }

  void Cancel(HttpTask& task) override {
    std::unique_lock lock(mu_);
    cancelled_.push_back(&task);
    const uint64_t ticket = ++last_cancel_;
    curl_multi_wakeup(multi_);
    cancel_done_.wait(lock, [&] { return cancels_done_ >= ticket; });
  }

 private:
  void Work(const std::stop_token& stop) {
    // No span and no name of the profiler here: this thread may end after the profiler's static
    // objects.
    // A write to a closed TLS connection must not end the program.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    while (!stop.stop_requested()) {
      TakeCommands();
      StartAttempts();
      int running = 0;
      curl_multi_perform(multi_, &running);
      if (FinishAttempts()) continue;
      curl_multi_poll(multi_, nullptr, 0, PollMs(), nullptr);
    }
  }

  // What other threads asked for.
  void TakeCommands() {
    std::vector<HttpTask*> continued;
    {
      const std::lock_guard lock(mu_);
      transfers_.splice(transfers_.end(), new_);
      continued.swap(continued_);
      if (!cancelled_.empty()) {
        for (const HttpTask* task : cancelled_) {
          const auto found = Find(task);
          if (found != transfers_.end()) Remove(found);
          std::erase(continued, task);
        }
        cancelled_.clear();
        cancels_done_ = last_cancel_;
        cancel_done_.notify_all();
      }
    }
    for (const HttpTask* task : continued) {
      const auto found = Find(task);
      if (found != transfers_.end() && found->easy) curl_easy_pause(found->easy, CURLPAUSE_CONT);
    }
  }

  std::list<Transfer>::iterator Find(const HttpTask* task) {
    return std::find_if(transfers_.begin(), transfers_.end(),
                        [&](const Transfer& transfer) { return transfer.task == task; });
  }

  void StartAttempts() {
    const double now = NowSeconds();
    for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
      const auto next = std::next(transfer);
      if (!transfer->easy && transfer->start_s <= now) {
        const Status started = StartAttempt(*transfer);
        if (!started.ok()) End(transfer, started);
      }
      transfer = next;
    }
  }

  int PollMs() const {
    double wait_s = 1;
    const double now = NowSeconds();
    for (const Transfer& transfer : transfers_) {
      if (!transfer.easy) wait_s = std::min(wait_s, transfer.start_s - now);
    }
    return static_cast<int>(std::ceil(std::max(wait_s, 0.0) * 1000));
  }

  Status StartAttempt(Transfer& transfer) {
    const HttpRequest request = transfer.task->NextRequest();
    transfer.is_s3 = request.is_s3;
    transfer.response = {};
    transfer.has_response = transfer.reads_body = transfer.is_stopped = false;
    transfer.error[0] = '\0';
    transfer.error_body.clear();
    transfer.header_bytes = 0;
    transfer.body_bytes = 0;
    if (idle_.empty()) {
      idle_.push_back(curl_easy_init());
      if (!idle_.back()) throw std::bad_alloc();
    }
    transfer.easy = idle_.back();
    idle_.pop_back();
    RETURN_IF_ERROR(SetOptions(transfer, request));
    if (curl_multi_add_handle(multi_, transfer.easy) != CURLM_OK) throw std::bad_alloc();
    return {};
  }

  Status SetOptions(Transfer& transfer, const HttpRequest& request) {
    CURL* const easy = transfer.easy;
    curl_easy_reset(easy);
    const bool is_https = request.url.starts_with("https:");
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, request.is_s3 ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kMaxRedirects);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBytes);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, long{options_.connect_timeout_s});
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kMinBytesPerSecond);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, long{options_.stall_s});
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    transfer.headers.reset();
    for (const std::string& header : request.headers) AddHeader(transfer, header);
    if (request.is_s3 && !options_.credentials.access_key.empty()) {
      RETURN_IF_ERROR(Sign(transfer));
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
    return {};
  }

  static void AddHeader(Transfer& transfer, const std::string& header) {
    curl_slist* const longer = curl_slist_append(transfer.headers.get(), header.c_str());
    if (!longer) throw std::bad_alloc();
    static_cast<void>(transfer.headers.release());
    transfer.headers.reset(longer);
  }

  Status Sign(Transfer& transfer) const {
    const S3Credentials& credentials = options_.credentials;
    const std::string kind = "aws:amz:" + options_.region + ":s3";
    curl_easy_setopt(transfer.easy, CURLOPT_USERNAME, credentials.access_key.c_str());
    curl_easy_setopt(transfer.easy, CURLOPT_PASSWORD, credentials.secret_key.c_str());
    // The SHA-256 of an empty body.
    AddHeader(transfer,
              "x-amz-content-sha256: "
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    if (!credentials.session_token.empty())
      AddHeader(transfer, "x-amz-security-token: " + credentials.session_token);
    if (curl_easy_setopt(transfer.easy, CURLOPT_AWS_SIGV4, kind.c_str()) == CURLE_OK) return {};
    return Invalid("this libcurl cannot sign requests to S3 (CURLOPT_AWS_SIGV4)");
  }

  static size_t OnHeader(const char* bytes, size_t, size_t size, void* data) {
    auto& transfer = *static_cast<Transfer*>(data);
    const std::string_view line(bytes, size);
    transfer.header_bytes += size;
    if (transfer.header_bytes > kMaxHeaderBytes) {
      transfer.failure = Status(Code::kIo, "expected at most " + std::to_string(kMaxHeaderBytes) +
                                               " bytes of headers, found more");
      return 0;
    }
    if (transfer.has_response) return size;  // a trailer
    if (line.starts_with("HTTP/")) {
      transfer.response = {};
      transfer.has_location = false;
    } else if (line == "\r\n" || line == "\n") {
      return EndHeaders(transfer) ? size : 0;
    } else {
      ReadHeader(line, transfer.response);
      transfer.has_location |= HeaderValue(line, "Location").has_value();
    }
    return size;
  }

  // False ends the transfer.
  static bool EndHeaders(Transfer& transfer) {
    HttpResponse& response = transfer.response;
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    const bool is_redirect =
        status >= 300 && status < 400 && !transfer.is_s3 && transfer.has_location;
    if (status < 200 || is_redirect) return true;
    transfer.has_response = true;
    curl_off_t length = -1;
    curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    response.body_bytes = static_cast<int64_t>(length);
    if (status >= 300 && status != 416) return true;
    const Result<bool> wants = transfer.task->OnHeaders(response);
    transfer.failure = wants.status();
    transfer.reads_body = wants.ok() && *wants;
    transfer.is_stopped = wants.ok() && !*wants;
    return transfer.reads_body;
  }

  static size_t OnBody(const char* bytes, size_t, size_t size, void* data) {
    auto& transfer = *static_cast<Transfer*>(data);
    if (!transfer.reads_body) {
      const size_t room = kMaxErrorBytes - std::min(kMaxErrorBytes, transfer.error_body.size());
      transfer.error_body.append(bytes, std::min(size, room));
      return size > room ? 0 : size;
    }
    const Result<bool> taken = transfer.task->OnBody({bytes, size});
    if (taken.ok() && !*taken) return CURL_WRITEFUNC_PAUSE;
    transfer.failure = taken.status();
    if (!taken.ok()) return 0;
    transfer.body_bytes += size;
    return size;
  }

  bool FinishAttempts() {
    bool any = false;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      Finish(Find(transfer->task), code);
      any = true;
    }
    return any;
  }

  void Finish(std::list<Transfer>::iterator transfer, CURLcode code) {
    EndAttempt(*transfer);
    if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
    has_reached_ |= transfer->has_response;
    const int status = transfer->has_response ? transfer->response.status : 0;
    if (!transfer->failure.ok()) return End(transfer, Named(*transfer, transfer->failure));
    if (transfer->is_stopped) return End(transfer, {});
    if (status >= 300 && status != 416) {
      const Status error = HttpError(*transfer);
      return IsTransient(status) ? Repeat(transfer, error) : End(transfer, error);
    }
    if (code == CURLE_OK && transfer->has_response) {
      if (transfer->task->IsComplete()) return End(transfer, {});
      // A server may send less than it was asked for.
      if (status == 206 && transfer->body_bytes > 0) return;
      return Repeat(transfer, Named(*transfer, Status(Code::kIo, "the response ends early")));
    }
    const std::string what = transfer->error[0] ? transfer->error : curl_easy_strerror(code);
    const Status error = Named(*transfer, Status(Code::kIo, Printable(what)));
    IsTransient(code) ? Repeat(transfer, error) : End(transfer, error);
  }

  static Status Named(const Transfer& transfer, const Status& status) {
    return {status.code(), transfer.name + ": " + status.message()};
  }

  Status HttpError(const Transfer& transfer) const {
    const HttpResponse& response = transfer.response;
    const std::string about =
        "HTTP " + std::to_string(response.status) + DescribeS3Error(transfer.error_body);
    const std::string& region = response.bucket_region;
    if (transfer.is_s3 && !region.empty() && region != options_.region) {
      return Named(transfer, Invalid("expected the option s3_region to be " + Printable(region) +
                                     ", found " + options_.region + " (" + about + ")"));
    }
    switch (response.status) {
      case 404:
      case 410:
        return Named(transfer, NotFound("no such file (" + about + ")"));
      case 412:
        return Named(transfer,
                     Status(Code::kIo, "the file has changed since it was opened (" + about + ")"));
      case 401:
      case 403:
        return Named(transfer,
                     Status(Code::kIo, "access denied (" + about + ")" + AccessAdvice(transfer)));
      default:
        return Named(transfer, Status(Code::kIo, about));
    }
  }

  std::string AccessAdvice(const Transfer& transfer) const {
    if (!transfer.is_s3) return "";
    return options_.credentials.access_key.empty()
               ? "; the request was anonymous, because no credentials were found"
               : "; the request was signed for the region " + options_.region;
  }

  // Another attempt after `error`, or the end.
  void Repeat(std::list<Transfer>::iterator transfer, const Status& error) {
    if (transfer->body_bytes >= kProgressBytes) transfer->failed_attempts = 0;
    const int failed = ++transfer->failed_attempts;
    const int limit =
        has_reached_ ? options_.max_attempts : std::min(options_.max_attempts, kMaxFirstContacts);
    const std::string times =
        " (attempt " + std::to_string(failed) + " of " + std::to_string(limit) + ")";
    if (failed >= limit) return End(transfer, Status(error.code(), error.message() + times));
    if (failed >= kAttemptsWithoutNote && options_.on_note)
      options_.on_note(error.message() + times);
    const double backoff =
        std::min(options_.max_backoff_s,
                 options_.first_backoff_s * std::ldexp(1.0, std::min(failed, 30) - 1));
    const double asked = std::clamp(transfer->response.retry_after_s, 0, kMaxRetryAfterS);
    const double wait_s = std::max(backoff, asked) * (0.75 + 0.5 * random_.Uniform());
    transfer->start_s = NowSeconds() + wait_s;
  }

  void EndAttempt(Transfer& transfer) {
    if (!transfer.easy) return;
    curl_multi_remove_handle(multi_, transfer.easy);
    idle_.push_back(std::exchange(transfer.easy, nullptr));
  }

  void End(std::list<Transfer>::iterator transfer, const Status& status) {
    HttpTask* const task = transfer->task;
    Remove(transfer);
    task->OnEnd(status);
  }

  void Remove(std::list<Transfer>::iterator transfer) {
    EndAttempt(*transfer);
    transfers_.erase(transfer);
  }

  const RemoteOptions options_;
  CURLM* const multi_;
  std::mutex mu_;
  std::list<Transfer> new_;           // mu_
  std::vector<HttpTask*> continued_;  // mu_
  std::vector<HttpTask*> cancelled_;  // mu_
  uint64_t last_cancel_ = 0;          // mu_
  uint64_t cancels_done_ = 0;         // mu_
  std::condition_variable cancel_done_;
  // Of the client's thread:
  std::list<Transfer> transfers_;
  std::vector<CURL*> idle_;
  Random random_;
  bool has_reached_ = false;  // some host has answered
  std::jthread thread_;
};

}  // namespace

void PrepareHttp() { CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); }

Result<std::unique_ptr<HttpClient>> HttpClient::Create(const RemoteOptions& options) {
  return std::unique_ptr<HttpClient>(std::make_unique<CurlClient>(options));
}

}  // namespace millrace::io
