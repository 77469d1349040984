// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/batch_learner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiler/trace.h"
#include "sparse/factor_kernels.h"
#include "sparse/value_scale.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using profiler::Cat;
using profiler::TraceScope;

double TotalWeight(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

// A batch's shape, and the bytes that are touched for each of its nonzeros.
profiler::TraceArgs ShapeOf(const CsrBatch& batch, size_t bytes_per_nonzero) {
  const auto nnz = static_cast<int64_t>(batch.cols.size());
  return {.rows = static_cast<int64_t>(batch.rows()),
          .nnz = nnz,
          .bytes = nnz * static_cast<int64_t>(bytes_per_nonzero)};
}

// Column, value where there are any, and weight or gradient.
size_t TouchedBytes(const CsrBatch& batch) {
  return sizeof(uint32_t) + sizeof(float) + (batch.values.empty() ? 0 : sizeof(float));
}

profiler::TraceArgs RowsOf(const CsrBatch& batch) {
  return {.rows = static_cast<int64_t>(batch.rows())};
}

// A weight multiplies its row's residual and does not change the number of rows.
void DivideByRows(std::span<float> residuals) {
  const auto factor = static_cast<float>(1 / static_cast<double>(residuals.size()));
  for (float& residual : residuals) residual *= factor;
}

class StoreLearner final : public BatchLearner {
 public:
  StoreLearner(sparse::WeightStore& store, const sparse::Kernels& kernels,
               sparse::GradientScale scale)
      : store_(store), kernels_(kernels), scale_(scale) {}

  Result<std::span<const float>> Score(const CsrBatch& batch) override {
    Prepare(batch);
    RETURN_IF_ERROR(store_.Pull(keys_, weights_));
    factors_.resize(batch.keys.size() * store_.factor_width());
    if (!factors_.empty()) RETURN_IF_ERROR(store_.PullFactors(batch.keys, factors_));
    Margins(batch, factors_);
    return std::span<const float>(margins_);
  }

  Result<double> Learn(const CsrBatch& batch, const CsrBatch* next) override {
    const uint64_t number = ++batches_;
    if (next) store_.Prefetch(number + 1, ModelKeys(*next, keys_));
    Prepare(batch);
    const size_t floats_per_key = store_.has_scales() ? 2 : 1;
    const size_t factors = batch.keys.size() * store_.factor_width();
    weights_.resize(floats_per_key * keys_.size() + factors);
    gradient_.resize(weights_.size());
    RETURN_IF_ERROR(store_.PullBatch(number, keys_, weights_));
    if (store_.has_scales()) Rescale(batch);
    Margins(batch, std::span(weights_).last(factors));
    residuals_.resize(batch.rows());
    const double loss = LossAndGradient(batch, factors);
    RETURN_IF_ERROR(store_.Push(keys_, gradient_,
                                {.batch = number,
                                 .rows = static_cast<uint32_t>(batch.rows()),
                                 .weight = TotalWeight(batch),
                                 .loss = loss}));
    return loss;
  }

  bool wants_next() const override { return store_.wants_prefetch(); }
  bool wants_compact_batches() const override { return true; }

 private:
  // Fills `keys` with the batch's keys and that of the intercept, if the model has one.
  std::span<const uint64_t> ModelKeys(const CsrBatch& batch, PodVector<uint64_t>& keys) const {
    keys.assign(batch.keys.begin(), batch.keys.end());
    if (store_.has_intercept()) keys.push_back(io::kInterceptKey);
    return keys;
  }

  void Prepare(const CsrBatch& batch) {
    CHECK(batch.compacted);
    weights_.resize(ModelKeys(batch, keys_).size());
    margins_.resize(batch.rows());
  }

  // Fills the second half of gradient_ with the scales of this batch's values, and gives the
  // weights the values that they have under these scales: the step makes the model's scales grow.
  void Rescale(const CsrBatch& batch) {
    const std::span<float> scales = std::span(weights_).subspan(keys_.size(), keys_.size());
    const std::span<float> largest = std::span(gradient_).subspan(keys_.size(), keys_.size());
    const size_t width = store_.factor_width();
    const std::span<float> factors = std::span(weights_).last(batch.keys.size() * width);
    std::fill(largest.begin(), largest.end(), batch.values.empty() ? 1.0f : 0.0f);
    for (size_t i = 0; i < batch.values.size(); ++i) {
      float& at = largest[batch.cols[i]];
      at = std::max(at, std::abs(batch.values[i]));
    }
    for (size_t k = 0; k < batch.keys.size(); ++k) {
      largest[k] = sparse::ScaleValue(sparse::ScaleFor(largest[k]));
      if (scales[k] > 0) weights_[k] *= sparse::GrowthFactor(scales[k], largest[k]);
      if (width == 0 || largest[k] <= scales[k]) continue;
      // Initial factors are those of normalised values.
      const float factor =
          scales[k] > 0 ? sparse::GrowthFactor(scales[k], largest[k]) : 1 / largest[k];
      for (float& v : factors.subspan(k * width, width)) v *= factor;
    }
    if (keys_.size() > batch.keys.size()) largest.back() = 1;  // the intercept
  }

  void Margins(const CsrBatch& batch, std::span<const float> factors) {
    TraceScope op("margins", Cat::kCompute, ShapeOf(batch, TouchedBytes(batch)));
    const size_t features = batch.keys.size();
    kernels_.margins(batch, std::span(weights_).first(features), margins_);
    if (keys_.size() > features) sparse::AddIntercept(weights_[features], margins_);
    if (factors.empty()) return;
    op.Then("factor_margins", Cat::kCompute, ShapeOf(batch, FactorBytes()));
    sparse::FactorKernelsFor().margins(FactorRowsOf(batch, factors), factor_sums_, margins_);
  }

  size_t FactorBytes() const { return store_.factor_width() * sizeof(float); }

  sparse::FactorRows FactorRowsOf(const CsrBatch& batch, std::span<const float> factors) const {
    return {.row_begin = batch.row_begin,
            .features = batch.cols.data(),
            .values = batch.values.empty() ? nullptr : batch.values.data(),
            .factors = factors.data(),
            .width = store_.factor_width(),
            .fields = sparse::FieldsFor(store_.factors(), batch),
            .num_fields = store_.factors().fields};
  }

  // `factors`: their number, at the end of weights_ and gradient_.
  double LossAndGradient(const CsrBatch& batch, size_t factors) {
    TraceScope op("loss_residuals", Cat::kCompute, RowsOf(batch));
    const double loss =
        kernels_.loss_and_residuals(margins_, batch.labels, batch.weights, residuals_);
    op.Then("gradient", Cat::kCompute, ShapeOf(batch, TouchedBytes(batch)));
    if (scale_ == sparse::GradientScale::kMean) DivideByRows(residuals_);
    const size_t features = batch.keys.size();
    kernels_.gradient(batch, residuals_, std::span(gradient_).first(features));
    if (keys_.size() > features) gradient_[features] = sparse::InterceptGradient(residuals_);
    if (factors == 0) return loss;
    op.Then("factor_gradient", Cat::kCompute, ShapeOf(batch, FactorBytes()));
    sparse::FactorKernelsFor().gradient(FactorRowsOf(batch, std::span(weights_).last(factors)),
                                        residuals_, factor_sums_,
                                        std::span(gradient_).last(factors));
    return loss;
  }

  sparse::WeightStore& store_;
  const sparse::Kernels& kernels_;
  sparse::GradientScale scale_;
  uint64_t batches_ = 0;      // trained on
  PodVector<uint64_t> keys_;  // what weights_ and gradient_ belong to
  PodVector<float> weights_, margins_, residuals_, gradient_;
  PodVector<float> factors_;  // of Score
  sparse::FactorSums factor_sums_;
};

class DirectLearner final : public BatchLearner {
 public:
  DirectLearner(sparse::LocalStore& store, const sparse::Kernels& kernels)
      : store_(store), kernels_(kernels), scale_(sparse::GradientScaleOf(store.options().rule)) {}

  Result<std::span<const float>> Score(const CsrBatch& batch) override {
    TRACE_SCOPE("margins", Cat::kCompute, ShapeOf(batch, TouchedBytes(batch)));
    margins_.resize(batch.rows());
    store_.DirectMargins(batch, margins_);
    return std::span<const float>(margins_);
  }

  Result<double> Learn(const CsrBatch& batch, const CsrBatch* next) override {
    margins_.resize(batch.rows());
    residuals_.resize(batch.rows());
    {
      TRACE_SCOPE("margins", Cat::kCompute, ShapeOf(batch, TouchedBytes(batch)));
      store_.DirectBegin(batch, margins_);
    }
    store_.DirectFactorsBegin(batch, next, margins_);
    const double loss = LossAndResiduals(batch);
    store_.DirectFactorsFinish(batch, next, residuals_);
    TRACE_SCOPE("update", Cat::kCompute, ShapeOf(batch, sizeof(uint32_t) + 2 * sizeof(float)));
    store_.DirectFinish(batch, residuals_);
    return loss;
  }

  bool wants_next() const override { return store_.factor_width() > 0; }
  bool wants_compact_batches() const override { return false; }

 private:
  double LossAndResiduals(const CsrBatch& batch) {
    TRACE_SCOPE("loss_residuals", Cat::kCompute, RowsOf(batch));
    const double loss =
        kernels_.loss_and_residuals(margins_, batch.labels, batch.weights, residuals_);
    if (scale_ == sparse::GradientScale::kMean) DivideByRows(residuals_);
    return loss;
  }

  sparse::LocalStore& store_;
  const sparse::Kernels& kernels_;
  sparse::GradientScale scale_;
  PodVector<float> margins_, residuals_;
};

}  // namespace

double PositiveWeight(const CsrBatch& batch) {
  double sum = 0;
  for (size_t r = 0; r < batch.rows(); ++r) {
    if (batch.labels[r] > 0) sum += batch.weights.empty() ? 1 : batch.weights[r];
  }
  return sum;
}

std::unique_ptr<BatchLearner> MakeStoreLearner(sparse::WeightStore& store,
                                               const sparse::Kernels& kernels,
                                               sparse::GradientScale scale) {
  return std::make_unique<StoreLearner>(store, kernels, scale);
}

std::unique_ptr<BatchLearner> MakeLocalLearner(sparse::LocalStore& store,
                                               const sparse::Kernels& kernels, bool may_be_direct) {
  if (may_be_direct && store.direct()) return std::make_unique<DirectLearner>(store, kernels);
  return MakeStoreLearner(store, kernels, sparse::GradientScaleOf(store.options().rule));
}

}  // namespace millrace::trainer
