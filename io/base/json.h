// SPDX-License-Identifier: Apache-2.0
// Writes JSON text value by value and inserts the commas.
//
//   JsonWriter json(out);
//   json.BeginObject();
//   json.Key("rows");
//   json.Uint(3);
//   json.EndObject();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// Appends to `out`, which must outlive the writer. The caller must nest Begin, End and Key
// correctly.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }
  void Key(std::string_view name);

  // Each byte that is not UTF-8 becomes U+FFFD.
  void String(std::string_view text);
  void Int(int64_t value);
  void Uint(uint64_t value);
  void Null();
  // The shortest digits that read back as the same number, always with a point or an exponent. JSON
  // has no other floats: they become the strings "NaN", "Infinity" and "-Infinity".
  void Float(float value);
  void Double(double value);
  // A whole value that is JSON text already.
  void Json(std::string_view text) { Raw(text); }

 private:
  void Open(char bracket);
  void Close(char bracket);
  void Comma();
  void Raw(std::string_view text);
  void Quote(std::string_view text);
  template <typename T>
  void Number(T value);

  std::string& out_;
  bool needs_comma_ = false;
};

std::string Base64(std::string_view bytes);

}  // namespace millrace
