// How far a job has come.
#pragma once

#include <cstdint>

namespace millrace::ps {

struct JobProgress {
  uint64_t step = 0;
  uint64_t examples = 0;  // learnt by all workers
  double loss = 0;        // summed over them, each before it was learnt
  double weight = 0;
};

}  // namespace millrace::ps
