// SPDX-License-Identifier: Apache-2.0
// Exponential and logarithm that give the same bits on every machine: libm's differ between
// versions and processors in the last place, which can flip a drawn label. They use only + - * /;
// errors stay within a few units of the last place (tests/tools/synth/portable_math_test.cc).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace millrace::synth {

inline constexpr double kLn2 = 0.693147180559945309417;

namespace internal {

// 1 / k!
inline constexpr auto kExpTerms = [] {
  std::array<double, 14> terms{};
  double factorial = 1;
  for (int k = 0; k < 14; ++k) {
    terms[static_cast<size_t>(k)] = 1 / factorial;
    factorial *= k + 1;
  }
  return terms;
}();

// 1 / (2k+1)
inline constexpr auto kArtanhTerms = [] {
  std::array<double, 11> terms{};
  for (int k = 0; k < 11; ++k) terms[static_cast<size_t>(k)] = 1.0 / (2 * k + 1);
  return terms;
}();

// terms[0] + terms[1] x + terms[2] x^2 ...
template <size_t n>
inline double Polynomial(const std::array<double, n>& terms, double x) {
  double sum = terms[n - 1];
  for (size_t k = n - 1; k > 0; --k) sum = sum * x + terms[k - 1];
  return sum;
}

}  // namespace internal

// 2^x. Below -1022 and above 1023 it stays at the value there.
inline double Exp2(double x) {
  x = std::clamp(x, -1022.0, 1023.0);
  const auto whole = static_cast<int64_t>(x + (x < 0 ? -0.5 : 0.5));
  const double y = (x - static_cast<double>(whole)) * kLn2;  // |y| <= 0.35
  return internal::Polynomial(internal::kExpTerms, y) *
         std::bit_cast<double>(static_cast<uint64_t>(whole + 1023) << 52);
}

// log2(x) for a positive, normal x.
inline double Log2(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);  // in [1, 2)
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  // ln m = 2 artanh t, |t| <= 0.172
  const double t = (m - 1) / (m + 1);
  const double ln_m = 2 * t * internal::Polynomial(internal::kArtanhTerms, t * t);
  return static_cast<double>(exponent) + ln_m / kLn2;
}

inline double Exp(double x) { return Exp2(x / kLn2); }
inline double Log(double x) { return Log2(x) * kLn2; }
// base > 0
inline double Pow(double base, double exponent) { return Exp2(exponent * Log2(base)); }

inline double Sigmoid(double margin) {
  const double e = Exp(margin < 0 ? margin : -margin);
  return (margin < 0 ? e : 1) / (1 + e);
}

// -log of the probability that a model with this margin gives to the label; finite at any margin.
inline double LogLoss(double margin, bool label) {
  const double m = label ? margin : -margin;
  return std::max(-m, 0.0) + Log(1 + Exp(m < 0 ? m : -m));
}

}  // namespace millrace::synth
