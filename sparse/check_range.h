// One message for all numbers that are out of range.
#pragma once

#include <cstdio>

#include "io/base/status.h"

namespace millrace::sparse {

inline Status CheckRange(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  char text[160];
  std::snprintf(text, sizeof text, "%s: expected a number from %g to %g, found %g", name, low, high,
                value);
  return Invalid(text);
}

}  // namespace millrace::sparse
