// SPDX-License-Identifier: Apache-2.0
// What all processes of a job must agree on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/state/state_fields.h"
#include "ps/number_layout.h"
#include "ps/wire/messages.h"
#include "sparse/dense_options.h"
#include "sparse/factors.h"
#include "sparse/update_options.h"

namespace millrace::ps {

enum class Mode {
  kSync,   // a step is applied once, when all workers' gradients for it are in
  kAsync,  // a gradient is applied when it arrives
  kSsp,    // as async, but no worker runs more than `staleness` steps ahead of the slowest
};
const char* ModeName(Mode mode);
// Accepts "sync", "async", "ssp".
Result<Mode> ModeFromName(std::string_view name);

// A number of servers or workers that a job can have.
Status CheckProcesses(const char* name, uint64_t value);

struct JobConfig {
  uint64_t num_workers = 1;
  uint64_t num_shards = 1;
  Mode mode = Mode::kSync;
  uint64_t staleness = 3;  // ssp
  // sync: the number of gradients that complete a step; later ones are dropped. 0: all workers
  uint64_t replicas_to_aggregate = 0;
  uint64_t num_features = 0;         // 0: a hashed-key table
  bool intercept = true;             // of a sparse model
  sparse::FactorShape factors = {};  // of a sparse model
  sparse::UpdateOptions update = {};
  std::optional<sparse::DenseOptions> dense = {};  // a net's parameters instead of a sparse model
  bool zstd = false;                               // gradients and weights are packed on the wire
  bool bf16 = false;                               // gradients are sent with 8 bits of precision
  std::string data;  // decides which rows a worker gets; compared, not parsed

  // What a list of keys has in an exchange: weights or gradients, and with update.normalize the
  // scales; then the factors or their gradients.
  NumberLayout LayoutOf(PullOf what) const;
  NumberLayout batch_layout() const { return LayoutOf(PullOf::kBatch); }

  Status Validate() const;
  io::StateFields Fields() const;
  static Result<JobConfig> From(const io::StateFields& fields);
};

// A random number that tells a process from all others, also from one that is started in its place.
// It does not come from the run's seed, which they share.
Result<uint64_t> DrawIdentity();

// Whether `theirs` is the same job as `ours`; the error names the first difference.
Status CheckSameJob(const io::StateFields& ours, const io::StateFields& theirs);

}  // namespace millrace::ps
