// SPDX-License-Identifier: Apache-2.0
// The factors of a model with the state of their update rule, which is that of the weights
// (update_rules.h) without L1 and with an L2 of its own. A block holds the packed state of all
// factors of a feature, plane by plane:
//
//   SGD       v[width]
//   AdaGrad   v[width], n[width]
//   FTRL      z[width], n[width]
//   Adam      v[width], m[width], v[width]
//
// A feature gets its block in the first training batch that contains it, or in the one with the
// number FactorShape::admit: the slot of its weight has the block's number (BlockSlot). Until then
// it has 0, or the number of batches so far. The order of numbers has no influence on the model. A
// feature whose factors are all 0 gets initial ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>

#include "io/base/pod_vector.h"
#include "sparse/factor_blocks.h"
#include "sparse/factors.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

// The slot of a weight and the number of the block with its feature's factors.
template <typename State>
struct BlockSlot : State {
  uint32_t block;
};

// BlockSlot::block of a feature that has no block yet: the batches that contained it.
constexpr uint32_t kCountsBatches = uint32_t{1} << 31;
inline uint32_t BlockNumber(uint32_t block) { return block & kCountsBatches ? 0 : block; }
inline uint32_t BatchCount(uint32_t block) {
  return block & kCountsBatches ? block & ~kCountsBatches : 0;
}

// Not thread-safe.
template <typename Params>
class FactorSlots {
  using Form = Packed<Params>;
  template <typename F>
  using State = typename Form::template State<F>;
  template <typename F>
  using Slot = typename Form::template Slot<F>;

 public:
  static constexpr size_t kPlanes = sizeof(State<float>) / sizeof(float);
  // Planes of a whole state, which ReadState and WriteState use: v first.
  static constexpr size_t kWholePlanes = sizeof(Slot<float>) / sizeof(float);

  // `whole_key`: see ModelShape.
  FactorSlots(const FactorShape& shape, std::function<uint64_t(uint64_t)> whole_key)
      : shape_(shape),
        whole_key_(std::move(whole_key)),
        blocks_(shape.width() * kPlanes),
        locate_prefetches_(block_bytes() <= kSmallBlock) {}

  size_t width() const { return shape_.width(); }

  // A training batch starts with Reserve, then Locate of each of its features, i = 0, 1, ...
  void Reserve(size_t features) { located_.resize(features); }
  // Finds the block of feature i, which may be followed by another feature i.
  void Locate(size_t i, uint32_t& block) {
    if (BlockNumber(block) == 0) {
      if (!Admits(block)) {
        located_[i] = blocks_.At(0);
        return;
      }
      block = blocks_.Add();
    }
    located_[i] = blocks_.At(block);
    if (locate_prefetches_) PrefetchBlock(located_[i]);
  }

  // A batch with a feature ends. Features without a block count batches.
  static void CountBatch(uint32_t& block) {
    if (BlockNumber(block) == 0) block = kCountsBatches | (BatchCount(block) + 1);
  }

  // Prefetches a block of a later batch, unless the blocks of a batch exceed the cache.
  void Prefetch(uint32_t block) const {
    if (locate_prefetches_) PrefetchBlock(blocks_.At(block));
  }

  // Gives factors to new features. `initial(v)` is the state of a new factor.
  template <typename Key, typename Initial>
  void Initialize(std::span<const Key> keys, Initial initial) {
    for (size_t i = 0; i < keys.size(); ++i) {
      PrefetchAhead(located_, i, keys.size(), kLine);
      if (IsNew(located_[i])) Initialize(keys[i], initial, located_[i]);
    }
  }

  // The same, and reads the factors of the located features: [features][width]. `before_each()` is
  // called before each feature.
  template <typename Key, typename Initial, typename BeforeEach>
  void Gather(const Params& params, std::span<const Key> keys, Initial initial,
              BeforeEach before_each, float* out) {
    for (size_t i = 0; i < keys.size(); ++i) {
      before_each();
      PrefetchAhead(located_, i, keys.size(), read_bytes());
      if (IsNew(located_[i])) Initialize(keys[i], initial, located_[i]);
      ReadBlock(params, located_[i], out + i * width());
    }
  }

  // Reads `count` blocks for scoring. `block(i)` is the number of the i-th one.
  template <typename BlockOf>
  void Read(const Params& params, size_t count, BlockOf block, float* out) const {
    found_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      found_[i] = blocks_.At(block(i));
      if (locate_prefetches_) PrefetchBlock(found_[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      PrefetchAhead(found_, i, count, read_bytes());
      ReadBlock(params, found_[i], out + i * width());
    }
  }

  // Reads `count` blocks as a training batch finds them: a feature without factors, which the batch
  // gives some, has its initial ones, and gets no block yet. `block(i)` is the BlockSlot::block of
  // the i-th one, `key(i)` its key.
  template <typename BlockOf, typename KeyOf, typename Initial>
  void Peek(const Params& params, size_t count, BlockOf block, KeyOf key, Initial initial,
            float* out) {
    found_.resize(count);
    admits_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t slot = block(i);
      found_[i] = blocks_.At(BlockNumber(slot));
      admits_[i] = BlockNumber(slot) == 0 && Admits(slot);
      if (locate_prefetches_) PrefetchBlock(found_[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      PrefetchAhead(found_, i, count, read_bytes());
      const float* at = found_[i];
      if (admits_[i] || IsNew(at)) {
        peeked_.assign(blocks_.block_floats(), 0);
        Initialize(key(i), initial, peeked_.data());
        at = peeked_.data();
      }
      ReadBlock(params, at, out + i * width());
    }
  }

  // The rule on the first `count` located features. `gradient_scale(i)` multiplies the gradient of
  // feature i and is called before its update.
  template <typename Scale>
  void Update(const Params& params, size_t count, const float* gradient, Scale gradient_scale) {
    for (size_t i = 0; i < count; ++i) {
      PrefetchAhead(located_, i, count, block_bytes());
      const float scale = gradient_scale(i);
      if (IsNone(located_[i])) continue;
      const float* g = gradient + i * width();
      float* block = located_[i];
      for (size_t f = 0; f < width(); f += kFactorLanes) {
        auto slot = Form::Unpack(params, Load(block + f));
        Step(params, Load4(g + f) * scale, slot);
        Store(Form::Pack(slot), block + f);
      }
    }
  }

  // Multiplies the factors of normalised values by 2: their scale doubles, and the margins stay.
  template <typename Double>
  void DoubleFactors(const Params& params, uint32_t number, Double double_weight) {
    if (number == 0) return;
    float* block = blocks_.At(number);
    for (size_t f = 0; f < width(); ++f) {
      Slot<float> slot = Form::Unpack(params, LoadOne(block + f));
      double_weight(params, slot);
      StoreOne(Form::Pack(slot), block + f);
    }
  }

  // Whether the block has factors or state.
  bool IsSeen(uint32_t number) const {
    const float* block = blocks_.At(number);
    return std::any_of(block, block + blocks_.block_floats(), [](float x) { return x != 0; });
  }

  // The whole state of a block, planes that are `stride` floats apart.
  void ReadState(const Params& params, uint32_t number, size_t stride, float* state) const {
    const float* block = blocks_.At(number);
    for (size_t f = 0; f < width(); ++f) {
      const Slot<float> slot = Form::Unpack(params, LoadOne(block + f));
      std::array<float, kWholePlanes> floats;
      std::memcpy(floats.data(), &slot, sizeof slot);
      for (size_t p = 0; p < kWholePlanes; ++p) state[p * stride + f] = floats[p];
    }
  }
  // State that is all zero needs no block.
  void WriteState(uint32_t& number, size_t stride, const float* state) {
    if (BlockNumber(number) == 0) {
      bool is_zero = true;
      for (size_t p = 0; p < kWholePlanes; ++p) {
        const float* plane = state + p * stride;
        is_zero = is_zero && std::all_of(plane, plane + width(), [](float x) { return x == 0; });
      }
      if (is_zero) return;
      number = blocks_.Add();
    }
    float* block = blocks_.At(number);
    for (size_t f = 0; f < width(); ++f) {
      std::array<float, kWholePlanes> floats;
      for (size_t p = 0; p < kWholePlanes; ++p) floats[p] = state[p * stride + f];
      Slot<float> slot;
      std::memcpy(&slot, floats.data(), sizeof slot);
      StoreOne(Form::Pack(slot), block + f);
    }
  }

 private:
  // Blocks of a batch that fit into the cache are prefetched when they are located, larger ones
  // shortly before their use.
  static constexpr size_t kSmallBlock = 256, kBytesAhead = 4096, kLine = 64, kMaxLines = 32;

  size_t block_bytes() const { return blocks_.block_floats() * sizeof(float); }
  // To read the factors. FTRL needs the whole state for that.
  size_t read_bytes() const {
    return std::is_same_v<Params, FtrlParams> ? block_bytes() : width() * sizeof(float);
  }
  void PrefetchBlock(const float* block) const { PrefetchBlock(block, block_bytes()); }
  static void PrefetchBlock(const float* block, size_t block_bytes) {
    const char* at = reinterpret_cast<const char*>(block);
    const size_t bytes = std::min(block_bytes, kMaxLines * kLine);
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i, 1);
  }
  template <typename Pointers>
  void PrefetchAhead(const Pointers& blocks, size_t i, size_t count, size_t bytes) const {
    if (locate_prefetches_) return;
    const size_t ahead = std::max<size_t>(2, kBytesAhead / bytes);
    if (i + ahead < count) PrefetchBlock(blocks[i + ahead], bytes);
  }

  State<Float4> Load(const float* at) const {
    std::array<Float4, kPlanes> planes;
    for (size_t p = 0; p < kPlanes; ++p) planes[p] = Load4(at + p * width());
    State<Float4> state;
    std::memcpy(&state, &planes, sizeof state);
    return state;
  }
  void Store(const State<Float4>& state, float* at) const {
    std::array<Float4, kPlanes> planes;
    std::memcpy(&planes, &state, sizeof state);
    for (size_t p = 0; p < kPlanes; ++p) Store4(at + p * width(), planes[p]);
  }
  State<float> LoadOne(const float* at) const {
    std::array<float, kPlanes> planes;
    for (size_t p = 0; p < kPlanes; ++p) planes[p] = at[p * width()];
    State<float> state;
    std::memcpy(&state, &planes, sizeof state);
    return state;
  }
  void StoreOne(const State<float>& state, float* at) const {
    std::array<float, kPlanes> planes;
    std::memcpy(&planes, &state, sizeof state);
    for (size_t p = 0; p < kPlanes; ++p) at[p * width()] = planes[p];
  }

  void ReadBlock(const Params& params, const float* block, float* out) const {
    for (size_t f = 0; f < width(); f += kFactorLanes) {
      Store4(out + f, Form::Weight(params, Load(block + f)));
    }
  }

  // Whether the next batch gives a feature without block one.
  bool Admits(uint32_t block) const { return BatchCount(block) + 1 >= shape_.admit; }
  // Block 0 stays all zero.
  bool IsNone(const float* block) const { return block == blocks_.At(0); }

  // Almost always decided by the first factor.
  bool IsNew(const float* block) const {
    if (IsNone(block)) return false;
    for (size_t f = 0; f < width(); ++f) {
      if (block[f] != 0) return false;
    }
    return true;
  }

  template <typename Initial>
  void Initialize(uint64_t key, Initial initial, float* block) {
    initial_.resize(width());
    InitialFactors(shape_, whole_key_ ? whole_key_(key) : key, initial_);
    for (size_t f = 0; f < width(); ++f) StoreOne(Form::Pack(initial(initial_[f])), block + f);
  }

  FactorShape shape_;
  std::function<uint64_t(uint64_t)> whole_key_;
  NumberedBlocks blocks_;
  bool locate_prefetches_;
  PodVector<float*> located_;
  mutable PodVector<const float*> found_;
  PodVector<uint8_t> admits_;  // of Peek
  PodVector<float> initial_, peeked_;
};

}  // namespace millrace::sparse
