// SPDX-License-Identifier: Apache-2.0
#include "sparse/factors.h"

#include <cmath>
#include <string>

#include "io/base/random.h"

namespace millrace::sparse {
namespace {

constexpr uint64_t kFactorStream = 0x666163746f72;  // "factor"

Status CheckFactors(uint64_t factors) {
  if (factors > 0 && factors <= kMaxFactors && factors % kFactorLanes == 0) return {};
  return Invalid("factors: expected a multiple of " + std::to_string(kFactorLanes) + " from " +
                 std::to_string(kFactorLanes) + " to " + std::to_string(kMaxFactors) + ", found " +
                 std::to_string(factors));
}

Status CheckFields(ModelKind kind, uint64_t fields, uint64_t factors) {
  const uint64_t most = kind == ModelKind::kFfm ? kMaxFactorWidth / factors : 1;
  if (fields > 0 && fields <= most) return {};
  return Invalid("fields: expected a number from 1 to " + std::to_string(most) + " for " +
                 std::to_string(factors) + " factors, found " + std::to_string(fields));
}

Status CheckAdmit(uint64_t admit) {
  if (admit > 0 && admit <= kMaxAdmit) return {};
  return Invalid("admit_factors: expected a number from 1 to " + std::to_string(kMaxAdmit) +
                 ", found " + std::to_string(admit));
}

}  // namespace

const char* ModelKindName(ModelKind kind) {
  if (kind == ModelKind::kLr) return "lr";
  return kind == ModelKind::kFm ? "fm" : "ffm";
}

Result<ModelKind> ModelKindFromName(std::string_view name) {
  if (name == "lr") return ModelKind::kLr;
  if (name == "fm") return ModelKind::kFm;
  if (name == "ffm") return ModelKind::kFfm;
  return Invalid("model: expected lr, fm or ffm, found '" + std::string(name) + "'");
}

Status FactorShape::Validate() const {
  if (kind == ModelKind::kLr) return {};
  RETURN_IF_ERROR(CheckFactors(factors));
  RETURN_IF_ERROR(CheckFields(kind, fields, factors));
  RETURN_IF_ERROR(CheckAdmit(admit));
  if (init > 0 && init <= 10) return {};
  return Invalid("factor_init: expected a number above 0 and at most 10, found " +
                 std::to_string(init));
}

void InitialFactors(const FactorShape& shape, uint64_t key, std::span<float> factors) {
  // A uniform number in (-1, 1) has the standard deviation 1 / sqrt(3).
  const auto scale = static_cast<float>(shape.init * std::sqrt(3.0));
  const uint64_t stream = DeriveSeed(shape.seed, kFactorStream, key);
  for (size_t i = 0; i < factors.size(); i += 2) {
    const uint64_t bits = Mix64(stream + (i + 1) * 0x9e3779b97f4a7c15u);
    // Odd numbers of 24 bits: never 0, and exact in a float.
    const auto number = [&](uint64_t word) {
      const auto centered = static_cast<int32_t>((word & 0xffffffu) | 1u) - (1 << 23);
      return scale * (static_cast<float>(centered) * 0x1p-23f);
    };
    factors[i] = number(bits);
    if (i + 1 < factors.size()) factors[i + 1] = number(bits >> 32);
  }
}

void AddFactorShape(const FactorShape& shape, io::StateFields& fields) {
  if (shape.kind == ModelKind::kLr) return;
  fields.Add("model", ModelKindName(shape.kind));
  fields.AddUint("factors", shape.factors);
  if (shape.kind == ModelKind::kFfm) fields.AddUint("factor_fields", shape.fields);
  if (shape.admit > 1) fields.AddUint("admit_factors", shape.admit);
  fields.AddDouble("factor_init", shape.init);
  fields.AddUint("factor_seed", shape.seed);
}

Result<FactorShape> FactorShapeFrom(const io::StateFields& fields) {
  FactorShape shape;
  const Result<std::string> kind = fields.Text("model");
  if (!kind.ok()) return shape;  // lr, and models of earlier versions
  ASSIGN_OR_RETURN(shape.kind, ModelKindFromName(*kind));
  ASSIGN_OR_RETURN(const uint64_t factors, fields.Uint("factors"));
  RETURN_IF_ERROR(CheckFactors(factors));
  shape.factors = static_cast<uint32_t>(factors);
  if (shape.kind == ModelKind::kFfm) {
    ASSIGN_OR_RETURN(const uint64_t number, fields.Uint("factor_fields"));
    RETURN_IF_ERROR(CheckFields(shape.kind, number, factors));
    shape.fields = static_cast<uint32_t>(number);
  }
  if (fields.Text("admit_factors").ok()) {
    ASSIGN_OR_RETURN(const uint64_t admit, fields.Uint("admit_factors"));
    RETURN_IF_ERROR(CheckAdmit(admit));
    shape.admit = static_cast<uint32_t>(admit);
  }
  ASSIGN_OR_RETURN(shape.init, fields.Double("factor_init"));
  ASSIGN_OR_RETURN(shape.seed, fields.Uint("factor_seed"));
  RETURN_IF_ERROR(shape.Validate());
  return shape;
}

std::string KindText(const FactorShape& shape) {
  if (shape.kind == ModelKind::kLr) return "lr";
  return std::string(ModelKindName(shape.kind)) + " with " + std::to_string(shape.factors) +
         " factors" +
         (shape.kind == ModelKind::kFfm ? " for each of " + std::to_string(shape.fields) + " fields"
                                        : "");
}

bool SameKind(const FactorShape& a, const FactorShape& b) {
  return a.kind == b.kind && a.factors == b.factors && a.fields == b.fields;
}

}  // namespace millrace::sparse
