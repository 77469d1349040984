// SPDX-License-Identifier: Apache-2.0
// The summary of a job's workers and of the bytes on the wire, as text.
#pragma once

#include <span>
#include <string>

#include "ps/wire/messages.h"
#include "ps/worker/shard_client.h"

namespace millrace::tools {

// One row per worker: examples, pushes, rate, and how long other workers were blocked on it.
// `seconds` is the training time.
std::string WorkerTable(std::span<const ps::WorkerStats> workers, double seconds);

// Names the lost workers, without an end of line; empty if there are none.
std::string LostText(std::span<const ps::WorkerStats> workers);

// Predicted and measured bytes of this worker's exchanges with all servers, per direction and per
// example, with a warning if they differ by more than 5 %.
std::string WireText(std::span<const ps::WireStats> wire, uint64_t own_examples);

}  // namespace millrace::tools
