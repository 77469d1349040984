// The training run of a net, in one process or as a worker of a job: batches in, tests on schedule,
// checkpoints, a model out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convnets/input/batch_source.h"
#include "convnets/input/image_set.h"
#include "convnets/net/net.h"
#include "convnets/train/net_backend.h"
#include "convnets/train/net_file.h"
#include "convnets/train/progress_state.h"
#include "io/base/status.h"
#include "sparse/dense_options.h"
#include "sparse/local_dense_store.h"
#include "trainer/loop/eval_schedule.h"
#include "trainer/run/metrics_row.h"

namespace millrace::convnets {

struct NetTrainOptions {
  NetOptions net;
  std::string engine = "auto";
  Init init = Init::kHe;
  sparse::DenseOptions update;
  size_t batch_size = 64;
  uint64_t epochs = 1;
  uint64_t max_examples = 0;  // 0: all epochs
  uint64_t eval_every = 0;    // training images between tests; 0: after each epoch
  size_t threads = 1;         // that compute
  size_t input_threads = 1;   // that decode images ahead
  uint64_t seed = 1;
  std::string model_in;           // start from this model's weights
  std::string checkpoints;        // folder; empty: none are written
  uint64_t checkpoint_every = 0;  // training images; 0: only when stopped
  bool resume = false;
  // This process's part of each epoch where several train together.
  size_t worker = 0, workers = 1;

  Status Validate() const;
  // That this worker learns from in a whole run, where the training set has so many images.
  uint64_t Batches(size_t images) const;
};

// What a run tells while it goes on. All but the clock are optional.
struct NetObserver {
  std::function<Status(const trainer::NamedRow& row)> on_test = nullptr;
  std::function<Status()> before_checkpoint = nullptr;
  std::function<void(const std::string& message)> on_note = nullptr;
  std::function<void(uint64_t examples)> on_progress = nullptr;
  std::function<bool()> should_stop = nullptr;  // asked after each batch
  std::function<double()> now_s = nullptr;      // a steady clock
};

struct NetSummary {
  bool stopped = false;  // should_stop said so
  uint64_t steps = 0;
  uint64_t examples = 0;
  uint64_t examples_here = 0;  // learnt by this process
  double seconds = 0;          // of this process
  double train_seconds = 0;    // of it, without tests and checkpoints
  double input_wait_seconds = 0;
  double mean_loss = 0;  // over all images, each before it was learnt
  std::optional<trainer::NamedRow> last_test = {};
};

class NetTrainer {
  struct Private {};  // only Create makes trainers

 public:
  // Makes the net, or takes it from the newest checkpoint (resume) or a model. The image sets
  // outlive the trainer; without `test` nothing is tested. `job`: this process is one of several
  // workers, and parameters and checkpoints are the job's; null: all is in this process.
  static Result<std::unique_ptr<NetTrainer>> Create(const NetTrainOptions& options,
                                                    const ImageSet& train, const ImageSet* test,
                                                    NetObserver observer, NetJob* job = nullptr);
  NetTrainer(Private, const NetTrainOptions& options, const ImageSet& train, const ImageSet* test,
             NetObserver observer, NetSpec spec, NetJob* job);

  std::optional<uint64_t> resumed_step() const { return resumed_step_; }
  Result<NetSummary> Run();
  // The weights alone, with the net's name and shape.
  Status SaveModel(const std::string& path) const;

  const NetSpec& spec() const { return spec_; }
  const Net& net() const { return *net_; }

 private:
  Status Prepare();
  Status Restore();
  Result<bool> Step();
  bool AskedToStop() const { return observer_.should_stop && observer_.should_stop(); }
  Result<bool> Interrupted();
  Status Interrupt(const ProgressState& before);
  void CountStep(const Batch& batch, const Outcome& outcome);
  void SyncWithJob();
  bool chief() const { return !job_ || job_->chief(); }
  bool Finished() const;
  Status Test();
  Status Checkpoint();
  io::StateFields NetFields(const char* kind) const;
  io::StateFields RunFields() const;  // what must be the same in a run that goes on
  FloatArrays Arrays(bool with_state) const;

  const NetTrainOptions options_;
  const ImageSet& train_;
  const ImageSet* const test_;
  NetObserver observer_;
  const NetSpec spec_;
  Params params_;
  std::unique_ptr<Net> net_;
  NetJob* const job_;
  std::unique_ptr<sparse::LocalDenseStore> local_;  // null: the store is the job's
  sparse::DenseStore* store_ = nullptr;
  std::unique_ptr<BatchSource> batches_;
  trainer::EvalSchedule schedule_;
  ProgressState state_;
  std::optional<uint64_t> resumed_step_;
  NetSummary summary_;
  double row_seconds_ = 0;  // of training since the last row
  uint64_t row_examples_here_ = 0;
  uint64_t next_checkpoint_ = 0;
  // A worker that was asked to stop waits until then for the chief to say so.
  double stop_by_s_ = 0;
};

// The metrics of a row: test accuracy, test logloss, and the training images' own accuracy.
std::vector<trainer::NamedValue> NetMetrics(double accuracy, double logloss, double train_accuracy);

std::string NetConsoleHeader();
std::string NetConsoleLine(const trainer::NamedRow& row);

}  // namespace millrace::convnets
