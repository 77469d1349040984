// What a job's workers and the wire did, as text.
#pragma once

#include <string>

#include "trainer/loop/model_home.h"

namespace millrace::tools {

// A row for each worker: examples, pushes, rate, how long the others waited for it. `seconds` is
// the time of the training.
std::string WorkerTable(const trainer::JobReport& report, double seconds);

// Predicted and measured bytes of this worker's exchanges, by direction and by example, and a
// warning where they differ by more than 5 %.
std::string WireText(const trainer::JobReport& report, uint64_t own_examples);

}  // namespace millrace::tools
