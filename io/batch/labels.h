// Whether a row may come without a label.
#pragma once

#include <limits>

namespace millrace::io {

// kOptional is for scoring: a row without a label gets kNoLabel. A label that is there must be a
// good one all the same.
enum class Labels { kRequired, kOptional };

constexpr float kNoLabel = std::numeric_limits<float>::quiet_NaN();

}  // namespace millrace::io
