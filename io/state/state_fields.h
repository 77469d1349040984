// Named values in the header of a state file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

// As text: a line "name value" for each, in the order they were added. Names have no spaces, values
// no line ends. Numbers read back are the very same bits (a NaN stays a NaN).
class StateFields {
 public:
  void Add(std::string_view name, std::string_view value);
  void AddUint(std::string_view name, uint64_t value);
  void AddDouble(std::string_view name, double value);

  // A field that is absent, or not of that kind, is corrupt; the error names it.
  Result<std::string> Text(std::string_view name) const;
  Result<uint64_t> Uint(std::string_view name) const;
  Result<double> Double(std::string_view name) const;

  // (name, value), in the order they were added.
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

  std::string Encode() const;
  static Result<StateFields> Decode(std::string_view text);

 private:
  const std::string* Find(std::string_view name) const;
  template <typename Number>
  Result<Number> ParseNumber(std::string_view name, const char* kind) const;

  std::vector<std::pair<std::string, std::string>> fields_;
};

// The shortest digits that give the same number again.
std::string NumberText(double value);
std::string NumberText(float value);

}  // namespace millrace::io
