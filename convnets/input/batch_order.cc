#include "convnets/input/batch_order.h"

#include <algorithm>
#include <numeric>

#include "io/base/random.h"

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

}  // namespace millrace::convnets
