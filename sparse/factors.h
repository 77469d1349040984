// SPDX-License-Identifier: Apache-2.0
// Factorization machines: what a model has besides linear weights.
//
//   lr    m = b + sum_i w_i x_i
//   fm    m = lr + sum_{i<j} <v_i, v_j> x_i x_j           (Rendle 2010), k factors a feature
//   ffm   m = lr + sum_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j, f_i the field of i     (Juan et al.
//         2016), k factors for each field: a feature's block is [fields][k]
//
// A feature owns one block of factors. A feature that no training batch contained has no block (all
// zero). The first batch that contains it, or the one with the number `admit`, gives it initial
// factors, which derive from (seed, key) alone: they do not depend on when, where or in which order
// features are first seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/base/status.h"
#include "io/state/state_fields.h"

namespace millrace::sparse {

enum class ModelKind { kLr, kFm, kFfm };
const char* ModelKindName(ModelKind kind);
// Accepts "lr", "fm", "ffm".
Result<ModelKind> ModelKindFromName(std::string_view name);

struct FactorShape {
  ModelKind kind = ModelKind::kLr;
  uint32_t factors = 0;  // k: a multiple of kFactorLanes; 0 for lr
  uint32_t fields = 1;   // of an ffm; 1 for the other kinds
  // A feature has factors from the admit-th training batch on that contains it, and a weight alone
  // before. Hashed-key tables only.
  uint32_t admit = 1;
  double init = 0;    // standard deviation of the initial factors
  uint64_t seed = 1;  // of the initial factors

  // Floats of factors a feature; 0 for lr.
  size_t width() const {
    return kind == ModelKind::kLr ? 0 : static_cast<size_t>(fields) * factors;
  }
  Status Validate() const;
  bool operator==(const FactorShape&) const = default;
};

// Kernels and updates work on four factors at a time.
constexpr uint32_t kFactorLanes = 4;
constexpr uint32_t kMaxFactors = 64;
constexpr size_t kMaxFactorWidth = 4096;  // fields times factors
constexpr uint32_t kDefaultFmFactors = 8;
constexpr uint32_t kDefaultFfmFactors = 4;
constexpr uint32_t kMaxAdmit = 1 << 20;
constexpr double kDefaultFactorInit = 0.01;

// The initial factors of a feature: uniform numbers with mean 0 and the standard deviation
// shape.init. The first ones do not depend on the number of factors.
void InitialFactors(const FactorShape& shape, uint64_t key, std::span<float> factors);

// Named fields for files: none for lr.
void AddFactorShape(const FactorShape& shape, io::StateFields& fields);
// kCorrupt if the fields are those of no model.
Result<FactorShape> FactorShapeFrom(const io::StateFields& fields);
// "fm with 8 factors", "ffm with 4 factors for each of 39 fields", for messages.
std::string KindText(const FactorShape& shape);
// Whether two models have the same kind and the same numbers of factors and fields.
bool SameKind(const FactorShape& a, const FactorShape& b);

}  // namespace millrace::sparse
