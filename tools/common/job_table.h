// What a job's workers and the wire did, as text.
#pragma once

#include <span>
#include <string>

#include "ps/wire/messages.h"
#include "ps/worker/shard_client.h"

namespace millrace::tools {

// A row for each worker: examples, pushes, rate, how long the others waited for it. `seconds` is
// the time of the training.
std::string WorkerTable(std::span<const ps::WorkerStats> workers, double seconds);

// A line that names the workers that were lost; empty if none was.
std::string LostText(std::span<const ps::WorkerStats> workers);

// Predicted and measured bytes of this worker's exchanges with each server, by direction and by
// example, and a warning where they differ by more than 5 %.
std::string WireText(std::span<const ps::WireStats> wire, uint64_t own_examples);

}  // namespace millrace::tools
