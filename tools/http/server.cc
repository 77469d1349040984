// SPDX-License-Identifier: Apache-2.0
#include "tools/http/server.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/http.hpp>

#include "io/base/json.h"
#include "profiler/trace.h"

namespace millrace::http {
namespace {

namespace net = boost::asio;
namespace beast_http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Tcp = net::ip::tcp;
using Executor = net::io_context::executor_type;
using Socket = net::basic_stream_socket<Tcp, Executor>;
using TlsSocket = net::ssl::stream<Socket>;
using Parser = beast_http::request_parser<beast_http::string_body>;

constexpr size_t kFirstBuffer = 8 << 10;  // of an idle connection
constexpr size_t kMaxBuffer = 64 << 10;   // more only for a frame
constexpr size_t kMaxBatch = 256 << 10;   // of responses to pipelined requests
constexpr std::chrono::milliseconds kSweep(50);
constexpr std::chrono::milliseconds kIdleDrain(1000);
// After an error the rest of the request is read and dropped: a client that still sends would not
// get to see the response otherwise.
constexpr std::chrono::milliseconds kLinger(2000);

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

// A name of this host, alone or with a port: any port, since a tunnel may have another one.
bool IsLocalHost(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (!host.starts_with(name)) continue;
    const std::string_view rest = host.substr(name.size());
    return rest.empty() || (rest[0] == ':' && IsPort(rest.substr(1)));
  }
  return false;
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

class SessionBase;
using SessionList = std::list<std::shared_ptr<SessionBase>>;

// What the connections of one thread share. Only that thread uses it, except for the counts.
struct Loop {
  Loop(const ServerOptions& server_options, const Handler& server_handler)
      : options(server_options), handler(server_handler), io(1), sweep(io) {}

  const ServerOptions& options;
  const Handler& handler;
  net::io_context io;
  net::basic_waitable_timer<Clock, net::wait_traits<Clock>, Executor> sweep;
  SessionList sessions = {};  // those first that have completed no request for longest
  size_t max_sessions = 0;
  size_t max_pending_bytes = 0;
  size_t pending_bytes = 0;
  Clock::time_point drain_since = Clock::time_point::max() - kIdleDrain;
  std::atomic<bool> draining = false;  // any thread sets it
  std::atomic<size_t> open = 0;
  std::atomic<uint64_t> closed_early = 0;
};

// One connection. Each has one operation under way, which keeps it alive.
class SessionBase {
 public:
  virtual ~SessionBase() = default;
  virtual void Begin() = 0;
  // Ends the connection at once.
  virtual void Abort() = 0;
  // Called now and then: acts on deadlines.
  virtual void Check(Clock::time_point now) = 0;

  SessionList::iterator place;
};

void Remove(Loop& loop, SessionBase& session) {
  loop.sessions.erase(session.place);
  loop.open.store(loop.sessions.size(), std::memory_order_relaxed);
}

void AbortEarly(Loop& loop, const std::shared_ptr<SessionBase>& session) {
  loop.closed_early.fetch_add(1, std::memory_order_relaxed);
  session->Abort();
}

void Add(Loop& loop, const std::shared_ptr<SessionBase>& session) {
  if (loop.sessions.size() >= loop.max_sessions) {
    AbortEarly(loop, std::shared_ptr<SessionBase>(loop.sessions.front()));
  }
  session->place = loop.sessions.insert(loop.sessions.end(), session);
  loop.open.store(loop.sessions.size(), std::memory_order_relaxed);
  session->Begin();
}

// Closes the oldest connections until the responses of the rest fit; the newest one stays.
void BoundPending(Loop& loop) {
  while (loop.pending_bytes > loop.max_pending_bytes && loop.sessions.size() > 1) {
    AbortEarly(loop, std::shared_ptr<SessionBase>(loop.sessions.front()));
  }
}

void AppendResponse(const ServerOptions& options, const Response& response, bool with_body,
                    bool keep_alive, std::string& out) {
  char number[24];
  const auto append_number = [&](size_t value) {
    out.append(number, std::to_chars(number, number + sizeof number, value).ptr);
  };
  out += "HTTP/1.1 ";
  append_number(static_cast<size_t>(response.code));
  out += ' ';
  out += Reason(response.code);
  out += "\r\nContent-Type: ";
  out += response.type;
  out += "\r\nContent-Length: ";
  append_number(response.body.size());
  out += "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff";
  if (response.code == 401) out += "\r\nWWW-Authenticate: Bearer";
  if (!options.for_programs) {
    out += "\r\nContent-Security-Policy: ";
    out += response.policy;
    out +=
        "\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer"
        "\r\nCross-Origin-Resource-Policy: same-origin"
        "\r\nCross-Origin-Opener-Policy: same-origin";
  }
  if (!keep_alive) out += "\r\nConnection: close";
  out += "\r\n\r\n";
  if (with_body) out += response.body;
}

Response Refuse(const ServerOptions& options, int code, std::string_view why) {
  Response response = {.code = code};
  if (!options.for_programs) {
    response.body = std::string(why.empty() ? Reason(code) : why) + "\n";
    return response;
  }
  response.type = "application/json";
  JsonWriter json(response.body);
  json.BeginObject();
  json.Key("error");
  json.String(why.empty() ? Reason(code) : why);
  json.EndObject();
  return response;
}

template <typename Stream>
class Session final : public SessionBase, public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <typename... Args>
  explicit Session(Loop& loop, Socket socket, Args&... tls)
      : loop_(loop), stream_(std::move(socket), tls...) {}

  void Begin() override {
    error_code ignored;
    stream_.lowest_layer().set_option(Tcp::no_delay(true), ignored);
    Limit(State::kReceiving, loop_.options.limits.request_ms);
    if constexpr (std::is_same_v<Stream, TlsSocket>) {
      stream_.async_handshake(net::ssl::stream_base::server,
                              [self = this->shared_from_this()](const error_code& error) {
                                if (self->closed_) return;
                                if (error) return self->Close();
                                self->Read();
                              });
    } else {
      Read();
    }
  }

  void Abort() override { Close(); }

  void Check(Clock::time_point now) override {
    const bool idle = state_ == State::kIdle || (state_ == State::kReceiving && !begun_);
    if (idle && loop_.draining && now >= loop_.drain_since + kIdleDrain) return Close();
    if (now < deadline_) return;
    if (state_ == State::kReceiving && begun_ && !frames_) {
      loop_.closed_early.fetch_add(1, std::memory_order_relaxed);
      // The read under way goes on; the response is written next to it.
      RefuseAndClose(408, "the request took longer than " +
                              std::to_string(loop_.options.limits.request_ms) + " ms");
      Write();
      return;
    }
    if (state_ != State::kIdle && state_ != State::kLingering) {
      loop_.closed_early.fetch_add(1, std::memory_order_relaxed);
    }
    Close();
  }

 private:
  enum class State { kIdle, kReceiving, kResponding, kLingering };

  const Limits& limits() const { return loop_.options.limits; }

  void Limit(State state, int ms) {
    state_ = state;
    deadline_ = Clock::now() + std::chrono::milliseconds(ms);
  }

  void Close() {
    if (closed_) return;
    closed_ = true;
    loop_.pending_bytes -= out_counted_;
    out_counted_ = 0;
    error_code ignored;
    stream_.lowest_layer().close(ignored);  // ends the operations under way
    Remove(loop_, *this);
  }

  void Read() {
    if (end_ == in_.size()) in_.resize(std::max(kFirstBuffer, 2 * in_.size()));
    reading_ = true;
    stream_.async_read_some(
        net::buffer(in_.data() + end_, in_.size() - end_),
        [self = this->shared_from_this()](const error_code& error, size_t bytes) {
          self->reading_ = false;
          self->HasRead(error, bytes);
        });
  }

  void HasRead(const error_code& error, size_t bytes) {
    if (closed_) return;
    if (state_ == State::kLingering || refused_) {
      if (error) {
        if (!writing_) Close();
        return;
      }
      return Read();  // dropped
    }
    if (error) return Close();
    end_ += bytes;
    Process();
  }

  // Handles the requests that are complete, and writes their responses together.
  void Process() {
    while (begin_ < end_ && !refused_ && !last_ && out_.size() < kMaxBatch) {
      if (!begun_) {
        begun_ = true;
        Limit(State::kReceiving, limits().request_ms);
        if (!has_first_byte_) {
          has_first_byte_ = true;
          if (in_[begin_] == 0 && loop_.options.frames) frames_ = loop_.options.frames();
        }
      }
      if (!(frames_ ? ProcessFrame() : ProcessHttp())) break;
    }
    if (begin_ == end_) {
      begin_ = end_ = 0;
      if (in_.size() > kMaxBuffer) in_ = std::vector<char>(kFirstBuffer);
    } else if (begin_ > 0) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (!out_.empty()) return Write();
    Read();
  }

  // False: more bytes are needed.
  bool ProcessFrame() {
    if (end_ - begin_ < 4) return false;
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(in_[begin_ + i]);
    if (size == 0 || size > limits().body_bytes || size > frames_->max_message()) {
      loop_.closed_early.fetch_add(1, std::memory_order_relaxed);
      last_ = true;  // there is no reply that a client would understand
      if (out_.empty()) Close();
      return false;
    }
    if (end_ - begin_ - 4 < size) return false;  // the buffer grows with the bytes that come
    if (!frames_->Handle({in_.data() + begin_ + 4, size}, out_)) last_ = true;
    begin_ += size + 4u;
    EndRequest();
    return true;
  }

  // False: more bytes are needed.
  bool ProcessHttp() {
    if (!parser_) {
      parser_.emplace();
      parser_->header_limit(static_cast<uint32_t>(limits().head_bytes));
      parser_->body_limit(limits().body_bytes);
      parser_->eager(true);
      continued_ = head_checked_ = false;
    }
    error_code error;
    begin_ += parser_->put(net::buffer(in_.data() + begin_, end_ - begin_), error);
    if (error == beast_http::error::need_more) error = {};
    if (error == beast_http::error::header_limit) {
      RefuseAndClose(431, "");
    } else if (error == beast_http::error::body_limit) {
      RefuseAndClose(413,
                     "the body has more than " + std::to_string(limits().body_bytes) + " bytes");
    } else if (error) {
      RefuseAndClose(400, "no valid HTTP request: " + error.message());
    } else if (parser_->is_header_done() && !std::exchange(head_checked_, true)) {
      const int code = CheckHead();
      if (code == 0) return FinishOrContinue();
      RefuseAndClose(code, "");
    } else {
      return FinishOrContinue();
    }
    return false;
  }

  // True if a request was handled.
  bool FinishOrContinue() {
    if (parser_->is_done()) {
      Handle();
      return true;
    }
    if (!parser_->is_header_done() || std::exchange(continued_, true)) return false;
    const auto expect = parser_->get()[beast_http::field::expect];
    if (boost::beast::iequals(expect, "100-continue") && begin_ == end_) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    }
    return false;
  }

  Request HeadOf(const Parser::value_type& message) const {
    Request request = {.method = View(message.method_string()), .path = View(message.target())};
    request.path = request.path.substr(0, request.path.find_first_of("?#"));
    request.authorization = View(message[beast_http::field::authorization]);
    return request;
  }

  void Handle() {
    auto& message = parser_->get();
    Request request = HeadOf(message);
    request.body = std::move(message.body());
    Response response;
    loop_.handler(request, response);
    const bool keep_alive = message.keep_alive() && limits().idle_ms > 0 && !loop_.draining;
    if (!keep_alive) last_ = true;
    AppendResponse(loop_.options, response, message.method() != beast_http::verb::head, keep_alive,
                   out_);
    EndRequest();
  }

  // 0, or the code of an error.
  int CheckHead() const {
    const auto& message = parser_->get();
    const Request request = HeadOf(message);
    if (request.path.empty() || request.path[0] != '/') return 400;
    if (loop_.options.only_local_names) {
      const auto [begin, end] = message.equal_range(beast_http::field::host);
      if (begin == end || std::next(begin) != end || !IsLocalHost(View(begin->value()))) return 403;
    }
    return loop_.options.check_head ? loop_.options.check_head(request) : 0;
  }

  void EndRequest() {
    parser_.reset();
    begun_ = false;
    loop_.sessions.splice(loop_.sessions.end(), loop_.sessions, place);
  }

  void RefuseAndClose(int code, std::string_view why) {
    refused_ = last_ = true;
    AppendResponse(loop_.options, Refuse(loop_.options, code, why), true, false, out_);
  }

  void Write() {
    loop_.pending_bytes += out_.size() - out_counted_;
    out_counted_ = out_.size();
    Limit(State::kResponding, limits().response_ms);
    if (loop_.pending_bytes > loop_.max_pending_bytes) {
      BoundPending(loop_);
      if (closed_) return;
    }
    writing_ = true;
    net::async_write(stream_, net::buffer(out_),
                     [self = this->shared_from_this()](const error_code& error, size_t) {
                       self->writing_ = false;
                       self->HasWritten(error);
                     });
  }

  void HasWritten(const error_code& error) {
    if (closed_) return;
    if (error) return Close();
    loop_.pending_bytes -= out_counted_;
    out_counted_ = 0;
    if (out_.capacity() > kMaxBatch) out_ = std::string();
    out_.clear();
    if (last_) return Finish();
    if (begun_) {
      // A part of the next request is there, or "100 Continue" was sent.
      Limit(State::kReceiving, limits().request_ms);
    } else {
      Limit(State::kIdle, limits().idle_ms);
    }
    // If the next request has begun, the bytes that are left are known to be a part of it only.
    if (begin_ < end_ && !begun_) return Process();
    Read();
  }

  // The last response is sent.
  void Finish() {
    if (!refused_) {
      if constexpr (std::is_same_v<Stream, TlsSocket>) {
        Limit(State::kLingering, static_cast<int>(kLinger.count()));
        stream_.async_shutdown(
            [self = this->shared_from_this()](const error_code&) { self->Close(); });
        return;
      }
      return Close();
    }
    error_code ignored;
    if constexpr (std::is_same_v<Stream, Socket>) stream_.shutdown(Socket::shutdown_send, ignored);
    Limit(State::kLingering, static_cast<int>(kLinger.count()));
    begin_ = end_ = 0;
    if (!reading_) Read();
  }

  Loop& loop_;
  Stream stream_;
  State state_ = State::kReceiving;
  Clock::time_point deadline_;
  bool closed_ = false;
  bool reading_ = false, writing_ = false;
  bool has_first_byte_ = false;
  bool begun_ = false;    // a part of the next request is there
  bool refused_ = false;  // the connection ends with an error
  bool last_ = false;     // the connection ends behind the response
  bool continued_ = false, head_checked_ = false;
  std::unique_ptr<FrameSession> frames_;
  std::vector<char> in_ = std::vector<char>(kFirstBuffer);
  size_t begin_ = 0, end_ = 0;  // in in_: bytes that are not handled yet
  std::optional<Parser> parser_;
  std::string out_;
  size_t out_counted_ = 0;  // in Loop::pending_bytes
};

Status MakeTls(const ServerOptions& options, std::optional<net::ssl::context>& tls) {
  if (options.tls_cert.empty()) return {};
  error_code error;
  tls.emplace(net::ssl::context::tls_server);
  const auto check = [&](const char* what, const std::string& path) {
    return error ? Status(Code::kInvalid,
                          std::string("TLS: ") + what + " " + path + ": " + error.message())
                 : Status();
  };
  tls->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                       net::ssl::context::no_tlsv1_1,
                   error);
  RETURN_IF_ERROR(check("options", ""));
  tls->use_certificate_chain_file(options.tls_cert, error);
  RETURN_IF_ERROR(check("certificate", options.tls_cert));
  tls->use_private_key_file(options.tls_key, net::ssl::context::pem, error);
  RETURN_IF_ERROR(check("private key", options.tls_key));
  tls->load_verify_file(options.tls_ca, error);
  RETURN_IF_ERROR(check("authorities", options.tls_ca));
  tls->set_verify_mode(net::ssl::verify_peer | net::ssl::verify_fail_if_no_peer_cert, error);
  return check("options", "");
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, Handler handler)
      : options_(options), handler_(std::move(handler)), loops_(MakeLoops()) {}

  ~Impl() {
    for (const auto& loop : loops_) loop->io.stop();
    threads_.clear();  // joins
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    for (const auto& loop : loops_) {
      const SessionList sessions = loop->sessions;
      for (const auto& session : sessions) session->Abort();
      loop->sweep.cancel();
      loop->io.restart();
      loop->io.poll();  // the operations that were cancelled release their connections
    }
  }

  Status Listen() {
    RETURN_IF_ERROR(MakeTls(options_, tls_));
    error_code error;
    const std::string host = options_.host == "localhost" ? "127.0.0.1" : options_.host;
    const auto address = net::ip::make_address(host, error);
    if (error) return Invalid("listen: expected an IP address or localhost, found '" + host + "'");
    const Tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(1024, error);
    if (error) {
      return IoError("cannot listen on " + host + ":" + std::to_string(options_.port),
                     error.value());
    }
    port_ = acceptor_.local_endpoint(error).port();
    for (const auto& loop : loops_) Sweep(*loop);
    Accept();
    for (const auto& loop : loops_) {
      threads_.emplace_back([this, &io = loop->io] {
        profiler::NameThread(options_.thread_name);
        // Signals are handled by the other threads of the program.
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
        io.run();
      });
    }
    return {};
  }

  uint16_t port() const { return port_; }
  size_t connections() const {
    size_t sum = 0;
    for (const auto& loop : loops_) sum += loop->open.load(std::memory_order_relaxed);
    return sum;
  }
  uint64_t closed_early() const {
    uint64_t sum = 0;
    for (const auto& loop : loops_) sum += loop->closed_early.load(std::memory_order_relaxed);
    return sum;
  }

  void Drain(int timeout_ms) {
    for (const auto& loop : loops_) loop->draining = true;
    net::post(loops_[0]->io, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      // Connections that are handed over to other threads now come before this.
      for (const auto& loop : loops_) {
        net::post(loop->io, [this, &draining = *loop] {
          draining.drain_since = Clock::now();
          const std::lock_guard lock(mu_);
          ++draining_;
        });
      }
    });
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                      [this] { return draining_ == loops_.size() && connections() == 0; });
  }

 private:
  std::vector<std::unique_ptr<Loop>> MakeLoops() {
    std::vector<std::unique_ptr<Loop>> loops;
    const auto threads = static_cast<size_t>(std::max(1, options_.threads));
    for (size_t i = 0; i < threads; ++i) {
      loops.push_back(std::make_unique<Loop>(options_, handler_));
      loops[i]->max_sessions = std::max<size_t>(1, (options_.limits.connections + i) / threads);
      loops[i]->max_pending_bytes = options_.limits.pending_bytes / threads;
    }
    return loops;
  }

  void Accept() {
    Loop& loop = *loops_[next_++ % loops_.size()];
    acceptor_.async_accept(loop.io, [this, &loop](const error_code& error, Socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return AcceptLater();
      net::post(loop.io, [this, &loop, socket = std::move(socket)]() mutable {
        if (tls_) {
          Add(loop, std::make_shared<Session<TlsSocket>>(loop, std::move(socket), *tls_));
        } else {
          Add(loop, std::make_shared<Session<Socket>>(loop, std::move(socket)));
        }
      });
      Accept();
    });
  }

  // No descriptors are left, for example.
  void AcceptLater() {
    retry_.expires_after(kSweep);
    retry_.async_wait([this](const error_code& error) {
      if (!error && acceptor_.is_open()) Accept();
    });
  }

  void Sweep(Loop& loop) {
    loop.sweep.expires_after(kSweep);
    loop.sweep.async_wait([this, &loop](const error_code& error) {
      if (error) return;
      const auto now = Clock::now();
      for (auto it = loop.sessions.begin(); it != loop.sessions.end();) {
        const std::shared_ptr<SessionBase> session = *it++;
        session->Check(now);
      }
      if (loop.draining) {
        const std::lock_guard lock(mu_);
        changed_.notify_all();
      }
      Sweep(loop);
    });
  }

  const ServerOptions options_;
  const Handler handler_;
  std::optional<net::ssl::context> tls_;
  const std::vector<std::unique_ptr<Loop>> loops_;
  // Of the first loop:
  net::basic_socket_acceptor<Tcp, Executor> acceptor_{loops_[0]->io};
  net::basic_waitable_timer<Clock, net::wait_traits<Clock>, Executor> retry_{loops_[0]->io};
  size_t next_ = 0;
  uint16_t port_ = 0;
  std::mutex mu_;
  std::condition_variable changed_;
  size_t draining_ = 0;  // loops; guarded by mu_
  std::vector<std::jthread> threads_;
};

Server::Server(Private, std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  RETURN_IF_ERROR(impl->Listen());
  return std::make_unique<Server>(Private{}, std::move(impl));
}

uint16_t Server::port() const { return impl_->port(); }
size_t Server::connections() const { return impl_->connections(); }
uint64_t Server::closed_early() const { return impl_->closed_early(); }
void Server::Drain(int timeout_ms) { impl_->Drain(timeout_ms); }

bool IsBearer(std::string_view given, std::string_view token) {
  constexpr std::string_view kScheme = "bearer ";
  if (given.size() != kScheme.size() + token.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    difference |= static_cast<unsigned char>((given[i] | 0x20) ^ kScheme[i]);
  }
  for (size_t i = 0; i < token.size(); ++i) {
    difference |= static_cast<unsigned char>(given[kScheme.size() + i] ^ token[i]);
  }
  return difference == 0;
}

}  // namespace millrace::http
