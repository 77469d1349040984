// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/test_set.h"

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

struct Weights {
  std::vector<PodVector<float>> batches;
  float intercept = 0;
};

Result<Weights> PullWeights(std::span<const CsrBatch> batches, sparse::WeightStore& store) {
  TRACE_SCOPE("evaluate", profiler::Cat::kEvaluation);
  Weights weights = {.batches = std::vector<PodVector<float>>(batches.size())};
  for (size_t i = 0; i < batches.size(); ++i) {
    CHECK(batches[i].compacted);
    weights.batches[i].resize(batches[i].keys.size());
    RETURN_IF_ERROR(store.Pull(batches[i].keys, weights.batches[i]));
  }
  if (store.has_intercept()) {
    RETURN_IF_ERROR(store.Pull({&io::kInterceptKey, 1}, {&weights.intercept, 1}));
  }
  return weights;
}

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
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  BinaryMetricsSum sum;
  if (complete_) {
    for (const CsrBatch& batch : kept_) RETURN_IF_ERROR(ScoreBatch(learner, batch, sum));
  } else {
    RETURN_IF_ERROR(Read(/*visits_all=*/true,
                         [&](const CsrBatch& batch) { return ScoreBatch(learner, batch, sum); }));
  }
  return MetricsOf(sum);
}

Evaluation TestSet::EvaluateInBackground(BatchLearner& learner, sparse::WeightStore& store,
                                         const sparse::Kernels& kernels) {
  const Result<std::span<const CsrBatch>> batches = Batches();
  if (!batches.ok()) return FailedEvaluation(batches.status());
  if (batches->empty()) return Evaluate(learner);
  auto weights = PullWeights(*batches, store);
  if (!weights.ok()) return FailedEvaluation(weights.status());
  return std::async(std::launch::async, [this, &kernels, weights = std::move(*weights)] {
    profiler::NameThread("evaluate");
    TRACE_SCOPE("score_test_set", profiler::Cat::kEvaluation);
    BinaryMetricsSum sum;
    PodVector<float> margins;
    for (size_t i = 0; i < kept_.size(); ++i) {
      margins.resize(kept_[i].rows());
      kernels.margins(kept_[i], weights.batches[i], margins);
      sparse::AddIntercept(weights.intercept, margins);
      sum.Add(margins, kept_[i].labels, kept_[i].weights);
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
