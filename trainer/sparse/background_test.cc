#include "trainer/sparse/background_test.h"

#include <chrono>

#include "profiler/trace.h"

namespace millrace::trainer {

Status BackgroundTest::Begin(std::span<const io::CsrBatch> batches, sparse::WeightStore& store,
                             const sparse::Kernels& kernels) {
  CHECK(!pending());
  TRACE_SCOPE("test", profiler::Cat::kEvaluation);
  weights_.resize(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    CHECK(batches[i].compacted);
    weights_[i].resize(batches[i].keys.size());
    RETURN_IF_ERROR(store.Pull(batches[i].keys, weights_[i]));
  }
  result_ = std::async(std::launch::async, [this, batches, &kernels] {
    profiler::NameThread("test");
    TRACE_SCOPE("score_test", profiler::Cat::kEvaluation);
    BinaryMetricsSum sum;
    PodVector<float> margins;
    for (size_t i = 0; i < batches.size(); ++i) {
      margins.resize(batches[i].rows());
      kernels.margins(batches[i], weights_[i], margins);
      sum.Add(margins, batches[i].labels, batches[i].weights);
    }
    return sum.Compute();
  });
  return {};
}

bool BackgroundTest::done() const {
  return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace millrace::trainer
