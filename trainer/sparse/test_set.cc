#include "trainer/sparse/test_set.h"

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
    profiler::NameThread("test");
    TRACE_SCOPE("read_test", profiler::Cat::kEvaluation);
    return Read(/*visits_all=*/false, [](const CsrBatch&) { return Status(); });
  });
}

Result<BinaryMetrics> TestSet::Test(BatchLearner& learner) {
  TRACE_SCOPE("test", profiler::Cat::kEvaluation);
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  BinaryMetricsSum sum;
  if (complete_) {
    for (const CsrBatch& batch : kept_) RETURN_IF_ERROR(ScoreBatch(learner, batch, sum));
  } else {
    RETURN_IF_ERROR(Read(/*visits_all=*/true,
                         [&](const CsrBatch& batch) { return ScoreBatch(learner, batch, sum); }));
  }
  const BinaryMetrics metrics = sum.Compute();
  RETURN_IF_ERROR(CheckNotEmpty(metrics));
  return metrics;
}

Result<std::span<const CsrBatch>> TestSet::Batches() {
  if (loading_.valid()) RETURN_IF_ERROR(loading_.get());
  if (!complete_ && cache_bytes_ > 0) {
    RETURN_IF_ERROR(Read(/*visits_all=*/false, [](const CsrBatch&) { return Status(); }));
  }
  return std::span<const CsrBatch>(kept_);
}

Status TestSet::CheckNotEmpty(const BinaryMetrics& metrics) const {
  if (metrics.examples + metrics.nan_margins > 0) return {};
  return Invalid("the test data has no examples: " + input_.files.front() +
                 (input_.files.size() > 1 ? " and the other files" : ""));
}

}  // namespace millrace::trainer
