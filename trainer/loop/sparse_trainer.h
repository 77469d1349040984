// The training run of sparse logistic regression in one process: batches in, tests on schedule,
// checkpoints, a model out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "trainer/loop/batch_learner.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/test_set.h"
#include "trainer/run/early_stop.h"
#include "trainer/run/eval_schedule.h"
#include "trainer/run/metrics_row.h"

namespace millrace::trainer {

struct TrainOptions {
  io::InputOptions train;
  io::InputOptions test = {};  // without files: no tests
  sparse::ModelShape shape = {};
  sparse::UpdateOptions update = {};
  // "auto": the fastest way. "native", "mkl", "plain": the compacted way with those kernels.
  std::string kernel = "auto";
  // Threads that train without locks (indexed SGD only): 0 and 1 train in one thread, as is
  // deterministic.
  uint64_t hogwild = 0;
  uint64_t max_examples = 0;  // 0: all epochs
  uint64_t eval_every = 0;    // training examples between tests; 0: at the end only
  EarlyStopRule early_stop = {};
  std::string model_in;           // warm start
  std::string checkpoints;        // folder; empty: none are written
  uint64_t checkpoint_every = 0;  // training examples; 0: only when stopped
  bool resume = false;
  uint64_t test_cache_bytes = 64 << 20;

  io::Status Validate() const;
};

// What a run tells while it goes on. All are optional.
struct TrainObserver {
  std::function<io::Status(const MetricsRow& row)> on_test = nullptr;
  std::function<io::Status()> before_checkpoint = nullptr;
  std::function<void(const std::string& message)> on_note = nullptr;
  std::function<void(uint64_t examples, double mean_loss)> on_progress =
      nullptr;                                  // about ten times a second at most
  std::function<bool()> should_stop = nullptr;  // asked after each batch and while waiting
  std::function<double()> now_s = nullptr;      // a steady clock; needed
};

struct TrainSummary {
  enum class End { kDone, kEarlyStop, kStopped };
  End end = End::kDone;
  uint64_t steps = 0;
  uint64_t examples = 0;
  double seconds = 0;          // of this process
  uint64_t examples_here = 0;  // learnt by this process
  double mean_loss = 0;        // over all examples, each before it was learnt
  std::optional<MetricsRow> last_test = {};
  io::InputStats input = {};
  io::Loss loss = {};  // records that were skipped
};

class SparseTrainer {
  struct Private {};  // only Create makes trainers

 public:
  SparseTrainer(Private, TrainOptions options, TrainObserver observer)
      : options_(std::move(options)), observer_(std::move(observer)) {}
  // Makes the model, or takes it from the newest checkpoint (resume) or a model file (warm start),
  // and opens the data.
  static io::Result<std::unique_ptr<SparseTrainer>> Create(TrainOptions options,
                                                           TrainObserver observer);

  // Of the checkpoint that the run goes on from, if any.
  std::optional<uint64_t> resumed_step() const { return resumed_step_; }
  io::Result<TrainSummary> Run();

  const sparse::LocalStore& store() const { return *store_; }
  const sparse::Kernels& kernels() const { return *kernels_; }
  bool direct() const { return !learner_->wants_compact_batches(); }

 private:
  io::Status Prepare();
  io::Status Restore();
  io::Result<bool> Advance();
  io::Result<bool> AdvanceHogwild();
  io::Status Learn(const io::CsrBatch& batch);
  io::Status CountLoss(double loss, double weight, uint64_t examples);
  io::Result<bool> TestIfDue(bool at_end);
  io::Status Checkpoint();
  io::Status Stop();
  bool Finished() const;
  void ShowProgress();

  TrainOptions options_;
  TrainObserver observer_;
  const sparse::Kernels* kernels_ = nullptr;
  std::unique_ptr<sparse::LocalStore> store_;
  std::unique_ptr<BatchLearner> learner_;
  std::unique_ptr<io::InputQueue> queue_;
  std::unique_ptr<TestSet> test_set_;
  std::optional<EvalSchedule> schedule_;
  std::optional<EarlyStop> early_stop_;
  TrainingState state_;
  std::optional<uint64_t> resumed_step_;
  TrainSummary summary_;
  double start_s_ = 0;
  double row_start_s_ = 0;     // when training went on after the last test
  uint64_t row_examples_ = 0;  // learnt since then
  double next_progress_s_ = 0;
  uint64_t next_checkpoint_ = 0;
};

}  // namespace millrace::trainer
