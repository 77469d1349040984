// Where the model of a run lives: in this process, or on the servers of a job. The training loop is
// the same for both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "ps/job_progress.h"
#include "ps/wire/messages.h"
#include "ps/worker/shard_client.h"
#include "trainer/loop/training_state.h"
#include "trainer/model/model_source.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {

// How far one worker has come with its own part of the data.
struct WorkerPlace {
  uint64_t examples = 0;
  io::InputPosition position = {};
  uint64_t input_fingerprint = 0;

  std::string Encode() const;
  static Result<WorkerPlace> Decode(const std::string& bytes);
};

// What a job's servers and workers did, for the end of a run.
struct JobReport {
  std::vector<ps::WorkerStats> workers;
  std::vector<ps::WireStats> wire;  // of this worker, by shard
  std::vector<ps::StatsReply> servers;
};

// Not thread-safe.
class ModelHome {
 public:
  virtual ~ModelHome() = default;
  virtual BatchLearner& learner() = 0;

  // The model where it is on servers: a test need not hold up training then. None otherwise.
  virtual sparse::WeightStore* remote_store() { return nullptr; }
  // Whether this process tests and saves the model.
  virtual bool chief() const { return true; }
  // Of the whole job, as far as it is known here; none where there is only this process.
  virtual std::optional<ps::JobProgress> progress() const { return std::nullopt; }
  // Where this worker will be after the next step.
  virtual void WillLearn(const WorkerPlace& /*after*/) {}
  // Waits for what is under way, so that progress and weights are those after the last step.
  virtual Status Settle() { return {}; }
  // This process has given up on a step because others stand still: it can only stop, or leave.
  virtual bool gave_up() const { return false; }
  // The chief has ended the job.
  virtual bool stopped() const { return false; }
  virtual Status StopJob() { return {}; }
  // Settled. All that is needed to go on from here.
  virtual Status Checkpoint(const TrainingState& state) = 0;
  // When this process has learnt its part, which ends at `place`: the chief waits for a step of the
  // others, or for some time. False when they learn no more.
  virtual Result<bool> Accompany(const WorkerPlace& /*place*/) { return false; }
  // This process learns no more; the chief waits for the others.
  virtual Status FinishTraining() { return {}; }
  // The last call.
  virtual Status Leave() { return {}; }

  // The home outlives the source.
  virtual ModelSource Source(uint64_t examples) = 0;
  virtual std::optional<JobReport> Report() { return std::nullopt; }
};

}  // namespace millrace::trainer
