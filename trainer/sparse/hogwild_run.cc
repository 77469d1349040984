#include "trainer/sparse/hogwild_run.h"

#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "profiler/trace.h"
#include "sparse/hogwild.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

class Hogwild {
 public:
  Hogwild(sparse::LocalStore& store, const sparse::Kernels& kernels, io::InputQueue& queue,
          uint64_t examples)
      : store_(store), kernels_(kernels), queue_(queue), examples_(examples) {}

  void Work() {
    CsrBatch batch;
    PodVector<float> margins;
    sparse::SgdParams params{};
    while (Take(batch, params)) {
      TRACE_SCOPE("step", profiler::Cat::kStep,
                  {.rows = static_cast<int64_t>(batch.rows()),
                   .nnz = static_cast<int64_t>(batch.cols.size())});
      margins.resize(batch.rows());
      sparse::HogwildMargins(batch, store_.hogwild_slots(), margins);
      const double loss =
          kernels_.loss_and_residuals(margins, batch.labels, batch.weights, margins);
      const double weight = batch.weights.empty()
                                ? static_cast<double>(batch.rows())
                                : std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
      const double rate = static_cast<double>(params.rate) / (weight > 0 ? weight : 1);
      sparse::HogwildUpdate(batch, margins, static_cast<float>(rate), store_.hogwild_slots());
      std::lock_guard lock(mu_);
      stretch_.loss += loss;
      stretch_.weight += weight;
    }
  }

  Result<HogwildStretch> Outcome() const {
    if (!status_.ok()) return status_;
    return stretch_;
  }

 private:
  // Copies the queue's next batch, whose memory the queue takes back.
  bool Take(CsrBatch& batch, sparse::SgdParams& params) {
    std::lock_guard lock(mu_);
    if (!status_.ok() || stretch_.ended || stretch_.examples >= examples_) return false;
    const CsrBatch* next = nullptr;
    const Result<bool> more = queue_.Next(next);
    status_ = more.status();
    stretch_.ended = more.ok() && !*more;
    if (!more.ok() || !*more) return false;
    batch = *next;
    ++stretch_.steps;
    stretch_.examples += batch.rows();
    store_.set_steps(store_.steps() + 1);
    params = sparse::SgdParamsAt(store_.options(), store_.steps());
    return true;
  }

  sparse::LocalStore& store_;
  const sparse::Kernels& kernels_;
  io::InputQueue& queue_;
  const uint64_t examples_;
  std::mutex mu_;
  HogwildStretch stretch_;  // guarded by mu_, as are the queue and the store's steps
  Status status_;           // likewise
};

}  // namespace

Result<HogwildStretch> RunHogwild(sparse::LocalStore& store, const sparse::Kernels& kernels,
                                  io::InputQueue& queue, size_t threads, uint64_t examples) {
  Hogwild hogwild(store, kernels, queue, examples);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < threads; ++i) workers.emplace_back([&hogwild] { hogwild.Work(); });
  }
  return hogwild.Outcome();
}

}  // namespace millrace::trainer
