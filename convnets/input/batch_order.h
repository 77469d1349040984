// Which images make up which batch: a pure function of the seed, so that a run can begin anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::convnets {

struct BatchOrderOptions {
  size_t images = 0;
  size_t batch_size = 64;
  uint64_t seed = 1;
  bool shuffle = true;
  // This worker's part of each epoch: every `workers`-th image of the epoch's order.
  size_t worker = 0, workers = 1;
};

// Every epoch has another order and visits every image once; its last batch may be smaller. Several
// workers have equally many images: up to workers - 1 of an epoch are left out.
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

}  // namespace millrace::convnets
