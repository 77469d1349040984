// SPDX-License-Identifier: Apache-2.0
// Where and why a text is not JSON. Slow: for messages.
#pragma once

#include <string>
#include <string_view>

namespace millrace::io {

// Deeper values are an error.
constexpr int kMaxJsonDepth = 1024;

// "byte 7: expected ':', found "x"" about the first byte where `text` is not one JSON value in
// UTF-8 with numbers in range; `otherwise` if there is none.
std::string DescribeJsonError(std::string_view text, std::string_view otherwise);

}  // namespace millrace::io
