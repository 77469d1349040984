// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model.h"

#include <new>

#include "profiler/trace.h"
#include "sparse/direct_step.h"
#include "sparse/factor_kernels.h"
#include "sparse/kernels.h"
#include "sparse/update_options.h"

namespace millrace::trainer {
namespace {

constexpr size_t kPrefetchAhead = 32;
constexpr char kCenters[] = "option.centers";  // as in checkpoints, which are models, too

}  // namespace

std::string ShapeText(uint64_t num_features) {
  return num_features == 0 ? "any 64-bit key" : "num_features = " + std::to_string(num_features);
}

void AddModelInfo(const ModelInfo& info, io::StateFields& fields) {
  fields.AddUint("num_features", info.num_features);
  fields.Add("rule", info.rule);
  sparse::AddFactorShape(info.factors, fields);
  fields.AddUint("steps", info.steps);
  fields.AddUint("examples", info.examples);
  if (!info.centers.empty()) fields.Add(kCenters, sparse::CentersText(info.centers));
  if (info.input) AddRowFormat(*info.input, fields);
}

Result<ModelInfo> ModelInfoFrom(const io::StateFields& fields) {
  ModelInfo info;
  ASSIGN_OR_RETURN(info.num_features, fields.Uint("num_features"));
  ASSIGN_OR_RETURN(info.rule, fields.Text("rule"));
  ASSIGN_OR_RETURN(info.factors, sparse::FactorShapeFrom(fields));
  ASSIGN_OR_RETURN(info.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(info.examples, fields.Uint("examples"));
  if (const Result<std::string> centers = fields.Text(kCenters); centers.ok()) {
    ASSIGN_OR_RETURN(info.centers, sparse::CentersFrom(*centers));
  }
  ASSIGN_OR_RETURN(info.input, io::RowFormatFrom(fields));
  return info;
}

Result<Model> Model::Create(const ModelInfo& info) {
  try {
    return Model(info);
  } catch (const std::bad_alloc& error) {
    return Invalid(ShapeText(info.num_features) + ": not enough memory for the model" +
                   AllocationText(error));
  }
}

void Model::Set(uint64_t key, float weight, std::span<const float> factors) {
  const bool has_factors = key != io::kInterceptKey && std::any_of(factors.begin(), factors.end(),
                                                                   [](float v) { return v != 0; });
  if (has_factors) {
    CHECK(factors.size() == factor_width());
    float* to = has_hashed_factors() ? hashed_factors_.At(key)
                                     : dense_factors_.data() + key * factor_width();
    std::copy(factors.begin(), factors.end(), to);
  }
  if (weight == 0 && !has_factors) return;
  ++info_.weights;
  if (key == io::kInterceptKey) {
    intercept_ = weight;
    return;
  }
  (is_hashed() ? hashed_.At(key).w : dense_[key].w) = weight;
}

float Model::Weight(uint64_t key) const {
  if (key == io::kInterceptKey) return intercept_;
  if (is_hashed()) return hashed_.Get(key).w;
  return key < dense_.size() ? dense_[key].w : 0.0f;
}

std::span<const float> Model::Factors(uint64_t key) const {
  if (factor_width() == 0 || key == io::kInterceptKey) return {};
  if (!has_hashed_factors()) {
    if (key >= info_.num_features) return {};
    return {dense_factors_.data() + key * factor_width(), factor_width()};
  }
  const float* factors = hashed_factors_.Get(key);
  if (!factors) return {};
  return {factors, factor_width()};
}

void Model::PrefetchFactors(uint64_t key) const {
  if (has_hashed_factors()) return hashed_factors_.Prefetch(key);
  __builtin_prefetch(dense_factors_.data() + key * factor_width());
}

void Model::ReadFactors(uint64_t key, float* out) const {
  const std::span<const float> factors = Factors(key);
  if (factors.empty()) std::fill_n(out, factor_width(), 0.0f);
  std::copy(factors.begin(), factors.end(), out);
}

void Model::AddFactors(const io::CsrBatch& batch, std::span<float> margins) const {
  const auto read_all = [this](const auto* keys, size_t count, float* out) {
    for (size_t i = 0; i < count; ++i) {
      if (i + kPrefetchAhead < count) PrefetchFactors(keys[i + kPrefetchAhead]);
      ReadFactors(keys[i], out + i * factor_width());
    }
  };
  if (!batch.compacted) {
    return sparse::AddFactorMargins(
        batch, info_.factors,
        [&](size_t first, size_t count, float* out) { read_all(&batch.cols[first], count, out); },
        margins);
  }
  PodVector<float> factors(batch.keys.size() * factor_width());
  read_all(batch.keys.data(), batch.keys.size(), factors.data());
  sparse::FactorSums sums;
  sparse::FactorKernelsFor().margins(
      {.row_begin = batch.row_begin,
       .features = batch.cols.data(),
       .values = batch.values.empty() ? nullptr : batch.values.data(),
       .factors = factors.data(),
       .width = factor_width(),
       .fields = sparse::FieldsFor(info_.factors, batch),
       .num_fields = info_.factors.fields},
      sums, margins);
}

Status Model::CheckKeys(std::span<const uint64_t> keys) const {
  if (is_hashed() || keys.empty() || keys.back() < info_.num_features) return {};
  return Invalid("key: expected below " + ShapeText(info_.num_features) + ", found " +
                 std::to_string(keys.back()));
}

Status Model::Margins(const io::CsrBatch& batch, PodVector<float>& scratch,
                      std::span<float> margins) const {
  TRACE_SCOPE(
      "margins", profiler::Cat::kCompute,
      {.rows = static_cast<int64_t>(batch.rows()), .nnz = static_cast<int64_t>(batch.cols.size())});
  CHECK(margins.size() == batch.rows());
  if (!batch.compacted) {
    if (is_hashed()) return Invalid("a model of any 64-bit key needs compacted batches");
    sparse::DirectMargins(batch, dense_.data(), margins);
    sparse::AddIntercept(intercept_, margins);
    if (factor_width() > 0) AddFactors(batch, margins);
    return {};
  }
  RETURN_IF_ERROR(CheckKeys(batch.keys));
  const size_t size = batch.keys.size();
  scratch.resize(size);
  for (size_t i = 0; i < size; ++i) {
    if (is_hashed() && i + kPrefetchAhead < size) hashed_.Prefetch(batch.keys[i + kPrefetchAhead]);
    scratch[i] = Weight(batch.keys[i]);
  }
  sparse::NativeKernels().margins(batch, scratch, margins);
  sparse::AddIntercept(intercept_, margins);
  if (factor_width() > 0) AddFactors(batch, margins);
  return {};
}

void Model::ForEach(const Visit& visit) const {
  for (uint64_t key = 0; key < dense_.size(); ++key) {
    if (dense_[key].w != 0) visit(key, dense_[key].w);
  }
  if (is_hashed())
    hashed_.ForEach([&](uint64_t key, const sparse::SgdSlot& slot) { visit(key, slot.w); });
  if (intercept_ != 0) visit(io::kInterceptKey, intercept_);
}

}  // namespace millrace::trainer
