// Writes JSON text, value after value; commas come by themselves.
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

// Appends to `out`, which must outlive the writer. Whether Begin, End and Key fit together is the
// caller's affair.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }
  void Key(std::string_view name);

  // Bytes that are not UTF-8 become U+FFFD, one for each.
  void String(std::string_view text);
  void Int(int64_t value);
  void Uint(uint64_t value);
  void Null();
  // The shortest digits that give the same number again, always with a point or an exponent. JSON
  // has no word for the rest: they are the strings "NaN", "Infinity" and "-Infinity".
  void Float(float value);
  void Double(double value);

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
