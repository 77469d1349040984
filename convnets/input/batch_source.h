// SPDX-License-Identifier: Apache-2.0
// Batches of images in a seeded order, prefetched by threads if decoding is slow.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "convnets/input/image_set.h"
#include "convnets/net/net.h"
#include "io/base/huge_array.h"

namespace millrace::convnets {

struct BatchOrderOptions {
  size_t images = 0;
  size_t batch_size = 64;
  uint64_t seed = 1;
  bool shuffle = true;
  // This worker's part of each epoch: every `workers`-th image of the epoch's order.
  size_t worker = 0, workers = 1;
};

// The images of each batch. They are a pure function of the seed, so that a run can start at any
// batch. Every epoch has another order with every image once; its last batch may be smaller. All
// workers have the same number of images: up to workers - 1 images of an epoch are left out.
class BatchOrder {
 public:
  explicit BatchOrder(const BatchOrderOptions& options) : options_(options) {}

  uint64_t batches_per_epoch() const;
  size_t share() const;  // images of this worker in an epoch
  // The images of batch 0, 1, 2, ... of all epochs. Valid until the next call.
  std::span<const uint32_t> Batch(uint64_t number);

 private:
  void StartEpoch(uint64_t epoch);

  BatchOrderOptions options_;
  uint64_t epoch_ = ~uint64_t{0};  // whose order is in order_
  std::vector<uint32_t> order_;
};

struct BatchSourceOptions {
  BatchOrderOptions order;  // `images` is filled in
  uint64_t begin = 0;       // the first batch's number
  uint64_t end = 0;         // one past the last batch's number
  size_t threads = 0;       // that prefetch batches; 0: Next decodes in its thread
};

// The same batches with any number of threads. Not thread-safe.
class BatchSource {
 public:
  // `images` outlives the source.
  BatchSource(const ImageSet& images, const BatchSourceOptions& options);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  // True and a batch that is valid until the next call, false at the end, or an error that names
  // file and record.
  Result<bool> Next(Batch& batch);
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Slot {
    HugeArray<float> pixels;
    std::vector<int32_t> labels;
    std::vector<uint32_t> images;
    Status status;
    uint64_t number = 0;  // of the batch that is in it or is being made
    bool ready = false;   // guarded by mu_, as are status and number
  };

  void Make(Slot& slot) const;  // slot.images are set
  void Prefetch();
  Slot& SlotOf(uint64_t number) { return slots_[number % slots_.size()]; }

  const ImageSet& images_;
  BatchSourceOptions options_;
  BatchOrder order_;  // guarded by mu_ where there are threads
  std::vector<Slot> slots_;
  uint64_t taken_;       // batches below it were returned; guarded by mu_
  uint64_t started_;     // the next batch that a thread will make; guarded by mu_
  bool ending_ = false;  // guarded by mu_
  std::mutex mu_;
  std::condition_variable changed_;
  double wait_seconds_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::convnets
