// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/test_set.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "io/stream/input_files.h"
#include "profiler/trace.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

uint64_t BytesOf(const CsrBatch& batch) {
  const size_t words = batch.row_begin.size() + batch.cols.size() + batch.values.size() +
                       batch.labels.size() + batch.weights.size() + 2 * batch.keys.size();
  return sizeof batch + sizeof(float) * words;
}

Status ScoreBatch(BatchLearner& learner, const CsrBatch& batch, BinaryMetricsSum& sum) {
  ASSIGN_OR_RETURN(const std::span<const float> margins, learner.Score(batch));
  sum.Add(margins, batch.labels, batch.weights);
  return {};
}

Evaluation FailedEvaluation(Status status) {
  std::promise<Result<std::vector<NamedValue>>> result;
  result.set_value(std::move(status));
  return result.get_future();
}

// The bytes of the weights and factors of all batches.
uint64_t PulledBytes(std::span<const CsrBatch> batches, size_t factor_width) {
  uint64_t keys = 0;
  for (const CsrBatch& batch : batches) keys += batch.keys.size() + 1;
  return keys * (1 + factor_width) * sizeof(float);
}

// What another store has for some batches now.
class PulledStore final : public sparse::WeightStore {
 public:
  static Result<std::unique_ptr<PulledStore>> Create(std::span<const CsrBatch> batches,
                                                     sparse::WeightStore& store) {
    TRACE_SCOPE("evaluate", profiler::Cat::kEvaluation);
    auto pulled = std::make_unique<PulledStore>();
    pulled->has_intercept_ = store.has_intercept();
    pulled->shape_ = store.factors();
    pulled->batches_.resize(batches.size());
    for (size_t i = 0; i < batches.size(); ++i) {
      CHECK(batches[i].compacted);
      const std::span<const uint64_t> keys = batches[i].keys;
      auto& [weights, factors] = pulled->batches_[i];
      weights.resize(keys.size());
      RETURN_IF_ERROR(store.Pull(keys, weights));
      factors.resize(keys.size() * store.factor_width());
      if (!factors.empty()) RETURN_IF_ERROR(store.PullFactors(keys, factors));
    }
    if (pulled->has_intercept_) {
      RETURN_IF_ERROR(store.Pull({&io::kInterceptKey, 1}, {&pulled->intercept_, 1}));
    }
    return pulled;
  }

  // The next calls are for the keys of that batch.
  void Select(size_t batch) { batch_ = &batches_[batch]; }

  bool has_intercept() const override { return has_intercept_; }
  sparse::FactorShape factors() const override { return shape_; }
  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override {
    std::copy(batch_->weights.begin(), batch_->weights.end(), weights.begin());
    if (io::HasIntercept(keys)) weights.back() = intercept_;
    return {};
  }
  Status PullFactors(std::span<const uint64_t>, std::span<float> factors) override {
    std::copy(batch_->factors.begin(), batch_->factors.end(), factors.begin());
    return {};
  }
  Status Push(std::span<const uint64_t>, std::span<const float>, const sparse::PushInfo&) override {
    return Invalid("these weights are not trained");
  }

 private:
  struct Batch {
    PodVector<float> weights, factors;
  };
  bool has_intercept_ = false;
  sparse::FactorShape shape_;
  std::vector<Batch> batches_;
  const Batch* batch_ = nullptr;
  float intercept_ = 0;
};

}  // namespace

template <typename Visit>
Status TestSet::Read(bool visits_all, Visit visit) {
  ASSIGN_OR_RETURN(const auto queue, io::InputQueue::Open(input_));
  const CsrBatch* batch = nullptr;
  bool keeping = cache_bytes_ > 0;
  kept_.clear();
  kept_bytes_ = 0;
  while (keeping || visits_all) {
    ASSIGN_OR_RETURN(const bool more, queue->Next(batch));
    if (!more) break;
    RETURN_IF_ERROR(visit(*batch));
    kept_bytes_ += BytesOf(*batch);
    keeping = keeping && kept_bytes_ <= cache_bytes_;
    if (keeping) kept_.push_back(*batch);
  }
  complete_ = keeping;
  if (!keeping) {
    kept_.clear();
    cache_bytes_ = 0;
  }
  return {};
}

void TestSet::Preload() {
  if (cache_bytes_ == 0) return;
  loading_ = std::async(std::launch::async, [this] {
    profiler::NameThread("evaluate");
    TRACE_SCOPE("read_test_set", profiler::Cat::kEvaluation);
    return Read(/*visits_all=*/false, [](const CsrBatch&) { return Status(); });
  });
}

Evaluation TestSet::Evaluate(BatchLearner& learner) {
  return std::async(std::launch::deferred, [this, &learner] { return Score(learner); });
}

Result<std::vector<NamedValue>> TestSet::Score(BatchLearner& learner) {
  TRACE_SCOPE("evaluate", profiler::Cat::kEvaluation);
  BinaryMetricsSum sum;
  RETURN_IF_ERROR(ForEach([&](const CsrBatch& batch) { return ScoreBatch(learner, batch, sum); }));
  return MetricsOf(sum);
}

Status TestSet::ForEach(const std::function<Status(const CsrBatch& batch)>& visit) {
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  if (!complete_) return Read(/*visits_all=*/true, visit);
  for (const CsrBatch& batch : kept_) RETURN_IF_ERROR(visit(batch));
  return {};
}

Evaluation TestSet::EvaluateInBackground(BatchLearner& learner, sparse::WeightStore& store,
                                         const sparse::Kernels& kernels) {
  const Result<std::span<const CsrBatch>> batches = Batches();
  if (!batches.ok()) return FailedEvaluation(batches.status());
  if (batches->empty()) return Evaluate(learner);
  if (store.factor_width() > 0 && PulledBytes(*batches, store.factor_width()) > cache_bytes_) {
    return Evaluate(learner);
  }
  auto pulled = PulledStore::Create(*batches, store);
  if (!pulled.ok()) return FailedEvaluation(pulled.status());
  return std::async(
      std::launch::async,
      [this, &kernels, store = std::move(*pulled)]() -> Result<std::vector<NamedValue>> {
        profiler::NameThread("evaluate");
        TRACE_SCOPE("score_test_set", profiler::Cat::kEvaluation);
        const auto pulled_learner = MakeStoreLearner(*store, kernels, sparse::GradientScale::kSum);
        BinaryMetricsSum sum;
        for (size_t i = 0; i < kept_.size(); ++i) {
          store->Select(i);
          RETURN_IF_ERROR(ScoreBatch(*pulled_learner, kept_[i], sum));
        }
        return MetricsOf(sum);
      });
}

Status TestSet::VisitFirst(const std::function<bool(const CsrBatch& batch)>& visit) {
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  if (complete_) {
    for (const CsrBatch& batch : kept_) {
      if (!visit(batch)) break;
    }
    return {};
  }
  if (!io::CheckReadableAgain(input_.files, "").ok()) return {};
  ASSIGN_OR_RETURN(const auto queue, io::InputQueue::Open(input_));
  const CsrBatch* batch = nullptr;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, queue->Next(batch));
    if (!more || !visit(*batch)) return {};
  }
}

Result<std::span<const CsrBatch>> TestSet::Batches() {
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  if (!complete_ && cache_bytes_ > 0) {
    RETURN_IF_ERROR(Read(/*visits_all=*/false, [](const CsrBatch&) { return Status(); }));
  }
  return std::span<const CsrBatch>(kept_);
}

Result<std::vector<NamedValue>> TestSet::MetricsOf(BinaryMetricsSum& sum) const {
  const BinaryMetrics metrics = sum.Compute();
  if (metrics.examples + metrics.nan_margins > 0) return NamedValues(metrics);
  return Invalid("the test data has no examples: " + input_.files.front() +
                 (input_.files.size() > 1 ? " and the other files" : ""));
}

}  // namespace millrace::trainer
