// SPDX-License-Identifier: Apache-2.0
// Every function that can fail returns a Status, or a Result<T> that holds a value or a Status.
//
//   Result<bool> more = reader.Next(record);   // error, end (false) or value (true)
//   RETURN_IF_ERROR(more.status());
//   ASSIGN_OR_RETURN(auto file, OpenFile(path));
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace millrace {

enum class Code {
  kOk,
  kInvalid,    // invalid arguments or options
  kNotFound,   // a file or pattern does not exist
  kIo,         // the operating system returned an error
  kCorrupt,    // bytes violate their format
  kCancelled,  // a stop was requested
  kFailed,     // the distributed job failed, perhaps in another process
  kBusy,       // a server cannot serve the call now: it can be made again
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status Invalid(std::string message) { return {Code::kInvalid, std::move(message)}; }
inline Status NotFound(std::string message) { return {Code::kNotFound, std::move(message)}; }
inline Status Corrupt(std::string message) { return {Code::kCorrupt, std::move(message)}; }
inline Status Failed(std::string message) { return {Code::kFailed, std::move(message)}; }
inline Status Busy(std::string message) { return {Code::kBusy, std::move(message)}; }
inline Status Cancelled(std::string message) { return {Code::kCancelled, std::move(message)}; }
// `message` followed by the text of `error_number` (an errno value).
inline Status IoError(std::string message, int error_number) {
  return {Code::kIo, std::move(message) + ": " + std::strerror(error_number)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

#define MILLRACE_CONCAT2(a, b) a##b
#define MILLRACE_CONCAT(a, b) MILLRACE_CONCAT2(a, b)

#define RETURN_IF_ERROR(expr)                                               \
  do {                                                                      \
    if (::millrace::Status status_ = (expr); !status_.ok()) return status_; \
  } while (0)

#define ASSIGN_OR_RETURN(target, expr)                  \
  auto MILLRACE_CONCAT(result_, __LINE__) = (expr);     \
  if (!MILLRACE_CONCAT(result_, __LINE__).ok())         \
    return MILLRACE_CONCAT(result_, __LINE__).status(); \
  target = std::move(*MILLRACE_CONCAT(result_, __LINE__))

// Guards against bugs of the program, never against input.
#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (0)

}  // namespace millrace
