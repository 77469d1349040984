// SPDX-License-Identifier: Apache-2.0
// SGD steps by several threads on one array of weights, without locks (Niu et al. 2011). Threads
// read weights while others change them, and an update is occasionally lost: the result depends on
// timing. On skewed data the threads also contend for the cache lines of popular features.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "trainer/sparse/segment_input.h"

namespace millrace::trainer {

struct HogwildStretch {
  uint64_t steps = 0;
  uint64_t examples = 0;
  double loss = 0;      // summed over the examples, each before the model trained on it
  double weight = 0;    // of the examples
  double positive = 0;  // the part of `weight` with a positive label
  bool ended = false;   // there is no more data
};

// Trains on at least `examples` examples (whole batches), or until the data ends, with `threads`
// threads. On return the model has been trained on all batches that were taken from the queue. The
// store must have hogwild_slots().
Result<HogwildStretch> RunHogwild(sparse::LocalStore& store, const sparse::Kernels& kernels,
                                  SegmentInput& queue, size_t threads, uint64_t examples);

}  // namespace millrace::trainer
