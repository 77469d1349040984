// SPDX-License-Identifier: Apache-2.0
// Reads JSON text from front to back, value after value, without building a tree.
//
//   JsonCursor json(text);
//   json.Object([&](std::string_view key) {
//     if (key == "rows") rows = json.Int(); else json.Skip();
//   });
//   RETURN_IF_ERROR(json.status());
//
// After the first error every call returns an empty value immediately; status() has the offset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::tools {

class JsonCursor {
 public:
  // `name` names the text in messages. The text must outlive the cursor.
  explicit JsonCursor(std::string_view text, std::string name = "JSON")
      : text_(text), name_(std::move(name)) {}

  // Calls `member` with each key; it must read or skip the value. The key is valid until then.
  template <typename Member>
  void Object(Member&& member) {
    if (!Open('{')) return;
    for (bool more = !Close('}'); more; more = Next('}')) {
      std::string buffer;
      const std::string_view key = Text(buffer);
      if (!Take(':')) return;
      member(key);
    }
    --depth_;
  }
  template <typename Element>
  void Array(Element&& element) {
    if (!Open('[')) return;
    for (bool more = !Close(']'); more; more = Next(']')) element();
    --depth_;
  }

  // A view of the text itself where nothing is escaped, else of `buffer`.
  std::string_view Text(std::string& buffer);
  std::string String();
  double Double();
  // A number, or a string that holds one; at most `limit` in size.
  int64_t Int(int64_t limit = INT64_MAX);
  void Skip();  // any value

  // The kind of the next value by its first character: { [ " t f n, or a digit or '-'.
  char Peek();
  size_t offset() const { return at_; }
  const Status& status() const { return status_; }
  void Fail(const std::string& expected);

 private:
  bool Open(char bracket);
  bool Close(char bracket);
  bool Next(char bracket);
  bool Take(char c);
  void SkipSpace();
  std::string_view Number();
  void Unescape(std::string& out);
  uint32_t Hex4();

  std::string_view text_;
  std::string name_;
  size_t at_ = 0;
  int depth_ = 0;
  Status status_;
};

}  // namespace millrace::tools
