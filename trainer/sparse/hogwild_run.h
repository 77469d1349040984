// A stretch of training by several threads without locks on the weights (see sparse/hogwild.h).
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"

namespace millrace::trainer {

struct HogwildStretch {
  uint64_t steps = 0;
  uint64_t examples = 0;
  double loss = 0;     // summed over the examples, each before it was learnt
  double weight = 0;   // of the examples
  bool ended = false;  // the data has
};

// Learns from at least `examples` examples (whole batches), or until the data ends, with `threads`
// threads. When it returns, all that was taken from the queue has been learnt. The store must have
// hogwild_slots().
Result<HogwildStretch> RunHogwild(sparse::LocalStore& store, const sparse::Kernels& kernels,
                                  io::InputQueue& queue, size_t threads, uint64_t examples);

}  // namespace millrace::trainer
