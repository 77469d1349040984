// SPDX-License-Identifier: Apache-2.0
// The text and the number that a value stands for, the same for every format: the integer 7 of a
// tf.Example, the cell "7" of a CSV file and the number 7 of a JSON line make the same keys.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/base/printable.h"
#include "io/features/field_row.h"

namespace millrace::io {

// Room for the text of a number.
using ValueText = char[32];

// A text as it is. Integers, and floats that are whole numbers below 2^53, have decimal digits
// ("-7"); other floats the shortest digits that read back as the same number of their type ("0.1").
// A view of `room`, or of the value's text.
inline std::string_view TextOf(const FieldValue& value, ValueText& room) {
  constexpr double kWhole = 9007199254740992.0;  // 2^53
  if (value.kind == FieldValue::Kind::kText) return value.AsText();
  std::to_chars_result end = {};
  if (value.kind == FieldValue::Kind::kInt) {
    end = std::to_chars(room, room + sizeof room, value.integer);
  } else if (std::abs(value.number) < kWhole && std::trunc(value.number) == value.number) {
    end = std::to_chars(room, room + sizeof room, static_cast<int64_t>(value.number));
  } else if (value.kind == FieldValue::Kind::kFloat) {
    end = std::to_chars(room, room + sizeof room, static_cast<float>(value.number));
  } else {
    end = std::to_chars(room, room + sizeof room, value.number);
  }
  return {room, static_cast<size_t>(end.ptr - room)};
}

// A finite number; none for any other text. Blanks around it do not matter.
inline std::optional<double> NumberOf(const FieldValue& value) {
  double number = 0;
  if (value.kind == FieldValue::Kind::kInt) return static_cast<double>(value.integer);
  if (value.kind == FieldValue::Kind::kText) {
    std::string_view text = value.AsText();
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  } else {
    number = value.number;
  }
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

// Calls visit(part), which returns a Status, for each part of a text between separators; empty
// parts are missing values and left out.
template <typename Visit>
Status ForEachPart(const FieldValue& value, std::string_view separator, const Visit& visit) {
  std::string_view rest = value.AsText();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(separator), rest.size());
    if (end > 0) {
      FieldValue part = value;
      part.text = rest.data();
      part.size = static_cast<uint32_t>(end);
      RETURN_IF_ERROR(visit(part));
    }
    rest.remove_prefix(std::min(rest.size(), end + separator.size()));
  }
  return {};
}

// For messages: a number, or a text in quotes, cut if it is long.
inline std::string DescribeValue(const FieldValue& value) {
  constexpr size_t kMaxText = 40;
  ValueText room;
  std::string text = Printable(TextOf(value, room).substr(0, kMaxText));
  if (value.kind != FieldValue::Kind::kText) return text;
  return "'" + text + (value.size > kMaxText ? "...'" : "'");
}

}  // namespace millrace::io
