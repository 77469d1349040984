// SPDX-License-Identifier: Apache-2.0
// The score of a row as users see it.
#pragma once

#include <cmath>

namespace millrace::score {

// 1 / (1 + exp(-margin)), which overflows for no margin.
inline double Probability(double margin) {
  const double e = std::exp(-std::abs(margin));
  return margin >= 0 ? 1 / (1 + e) : e / (1 + e);
}

}  // namespace millrace::score
