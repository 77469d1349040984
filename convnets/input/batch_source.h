// Batches in order, made ahead by threads where that takes long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "convnets/input/batch_order.h"
#include "convnets/input/image_set.h"
#include "convnets/net/net.h"
#include "io/base/huge_array.h"

namespace millrace::convnets {

struct BatchSourceOptions {
  BatchOrderOptions order;  // `images` is filled in
  uint64_t begin = 0;       // the first batch's number
  uint64_t end = 0;         // behind the last one
  size_t threads = 0;       // that make batches ahead; 0: Next makes them itself
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
  void MakeAhead();
  Slot& SlotOf(uint64_t number) { return slots_[number % slots_.size()]; }

  const ImageSet& images_;
  BatchSourceOptions options_;
  BatchOrder order_;  // guarded by mu_ where there are threads
  std::vector<Slot> slots_;
  uint64_t taken_;       // batches below it were handed out; guarded by mu_
  uint64_t started_;     // the next batch that a thread will make; guarded by mu_
  bool ending_ = false;  // guarded by mu_
  std::mutex mu_;
  std::condition_variable changed_;
  double wait_seconds_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::convnets
