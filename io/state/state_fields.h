// SPDX-License-Identifier: Apache-2.0
// Named values in the header of a state file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

// The text form has one line "name value" per field, in the order of Add. Names contain no spaces,
// values no line ends. Numbers read back have the same bits (a NaN stays a NaN).
class StateFields {
 public:
  void Add(std::string_view name, std::string_view value);
  void AddUint(std::string_view name, uint64_t value);
  void AddDouble(std::string_view name, double value);
  // Any bytes, as x and hexadecimal digits.
  void AddBytes(std::string_view name, std::string_view bytes);

  // An absent field, or one of another type, is an error (kCorrupt) that names it.
  Result<std::string> Text(std::string_view name) const;
  Result<uint64_t> Uint(std::string_view name) const;
  Result<double> Double(std::string_view name) const;
  Result<std::string> Bytes(std::string_view name) const;

  // (name, value), in the order of Add.
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

  std::string Encode() const;
  static Result<StateFields> Decode(std::string_view text);

 private:
  const std::string* Find(std::string_view name) const;
  template <typename Number>
  Result<Number> ParseNumber(std::string_view name, const char* kind) const;

  std::vector<std::pair<std::string, std::string>> fields_;
};

// The shortest digits that read back as the same number.
std::string NumberText(double value);
std::string NumberText(float value);

}  // namespace millrace::io
