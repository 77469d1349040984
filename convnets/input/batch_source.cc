// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/batch_source.h"

#include <algorithm>
#include <numeric>

#include "io/base/random.h"
#include "profiler/clock.h"
#include "profiler/trace.h"

namespace millrace::convnets {
namespace {

constexpr uint64_t kOrderStream = 0x04de;

}  // namespace

size_t BatchOrder::share() const {
  // All workers get the same number, so that they take the same number of steps.
  return std::max<size_t>(1, options_.images / options_.workers);
}

uint64_t BatchOrder::batches_per_epoch() const {
  return (share() + options_.batch_size - 1) / options_.batch_size;
}

void BatchOrder::StartEpoch(uint64_t epoch) {
  epoch_ = epoch;
  std::vector<uint32_t> all(options_.images);
  std::iota(all.begin(), all.end(), 0);
  if (options_.shuffle) {
    Random random(DeriveSeed(options_.seed, kOrderStream, epoch));
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.Below(i)]);
  }
  order_.clear();
  for (size_t i = 0; i < share(); ++i) {
    order_.push_back(all[(i * options_.workers + options_.worker) % all.size()]);
  }
}

std::span<const uint32_t> BatchOrder::Batch(uint64_t number) {
  const uint64_t epoch = number / batches_per_epoch();
  if (epoch != epoch_) StartEpoch(epoch);
  const size_t begin = number % batches_per_epoch() * options_.batch_size;
  return std::span(order_).subspan(begin, std::min(options_.batch_size, order_.size() - begin));
}

namespace {

constexpr uint64_t kAugmentStream = 0xa063;

BatchOrderOptions WithImages(BatchOrderOptions order, size_t images) {
  order.images = images;
  return order;
}

}  // namespace

BatchSource::BatchSource(const ImageSet& images, const BatchSourceOptions& options)
    : images_(images),
      options_(options),
      order_(WithImages(options.order, images.size())),
      slots_(options.threads == 0 ? 1 : options.threads + 2),
      taken_(options.begin),
      started_(options.begin) {
  for (Slot& slot : slots_) {
    slot.pixels = HugeArray<float>(options.order.batch_size * images.shape().size());
    slot.images.reserve(options.order.batch_size);
  }
  for (size_t t = 0; t < options.threads; ++t) threads_.emplace_back([this] { Prefetch(); });
}

BatchSource::~BatchSource() {
  {
    const std::lock_guard lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
}

void BatchSource::Make(Slot& slot) const {
  TRACE_SCOPE("make batch", profiler::Cat::kInput,
              {.rows = static_cast<int64_t>(slot.images.size())});
  const size_t size = images_.shape().size();
  slot.labels.resize(slot.images.size());
  for (size_t n = 0; n < slot.images.size(); ++n) {
    const uint64_t seed =
        DeriveSeed(options_.order.seed, kAugmentStream + slot.number, slot.images[n]);
    const Result<int32_t> label =
        images_.Read(slot.images[n], seed, slot.pixels.span().subspan(n * size, size));
    if (!label.ok()) {
      slot.status = label.status();
      return;
    }
    slot.labels[n] = *label;
  }
}

void BatchSource::Prefetch() {
  profiler::NameThread("input");
  std::unique_lock lock(mu_);
  while (true) {
    // A slot is free again when the batch that was in it is not the caller's any more.
    changed_.wait(lock, [&] {
      return ending_ || (started_ < options_.end && started_ + 1 < taken_ + slots_.size());
    });
    if (ending_) return;
    Slot& slot = SlotOf(started_);
    slot.number = started_++;
    slot.ready = false;
    const std::span<const uint32_t> images = order_.Batch(slot.number);
    slot.images.assign(images.begin(), images.end());
    lock.unlock();
    Make(slot);
    lock.lock();
    slot.ready = true;
    changed_.notify_all();
  }
}

Result<bool> BatchSource::Next(Batch& batch) {
  TRACE_SCOPE("input_wait", profiler::Cat::kInput);
  const double begin = NowSeconds();
  std::unique_lock lock(mu_);
  if (taken_ >= options_.end) return false;
  Slot& slot = SlotOf(taken_);
  if (threads_.empty()) {
    slot.number = taken_;
    const std::span<const uint32_t> images = order_.Batch(slot.number);
    slot.images.assign(images.begin(), images.end());
    Make(slot);
  } else {
    changed_.wait(lock, [&] { return slot.ready && slot.number == taken_; });
  }
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  wait_seconds_ += NowSeconds() - begin;
  RETURN_IF_ERROR(slot.status);
  batch = {slot.pixels.span().first(slot.labels.size() * images_.shape().size()), slot.labels};
  return true;
}

}  // namespace millrace::convnets
