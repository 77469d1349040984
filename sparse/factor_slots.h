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
// A block is all zero until a training batch contains its feature. So that no other place has to
// say what was seen, a feature whose factors are all 0 gets initial factors.
#pragma once

#include <array>
#include <cstring>
#include <span>

#include "io/base/pod_vector.h"
#include "sparse/factors.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

// `Blocks` is a table of factor_blocks.h. Not thread-safe.
template <typename Params, typename Blocks>
class FactorSlots {
  using Form = Packed<Params>;
  template <typename F>
  using State = typename Form::template State<F>;
  template <typename F>
  using Slot = typename Form::template Slot<F>;

 public:
  static constexpr size_t kPlanes = sizeof(State<float>) / sizeof(float);
  // Planes of a whole state, which Load and Store use: v first.
  static constexpr size_t kWholePlanes = sizeof(Slot<float>) / sizeof(float);

  template <typename... TableArgs>
  explicit FactorSlots(const FactorShape& shape, TableArgs... args)
      : shape_(shape), blocks_(shape.width() * kPlanes, args...) {}

  size_t width() const { return shape_.width(); }

  // Finds the blocks of the features of a training batch, and gives factors to new features.
  // `initial(v)` is the state of a new factor.
  template <typename Key, typename Initial>
  void Locate(std::span<const Key> keys, Initial initial) {
    located_.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kTableAhead < keys.size()) blocks_.Prefetch(keys[i + kTableAhead]);
      located_[i] = blocks_.At(keys[i]);
    }
    const size_t ahead = Ahead();
    for (size_t i = 0; i < std::min(ahead, keys.size()); ++i) PrefetchBlock(located_[i]);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + ahead < keys.size()) PrefetchBlock(located_[i + ahead]);
      if (IsNew(located_[i])) Initialize(keys[i], initial, located_[i]);
    }
  }

  // The factors of the located features: [features][width].
  void Gather(const Params& params, float* out) const {
    for (size_t i = 0; i < located_.size(); ++i) ReadBlock(params, located_[i], out + i * width());
  }

  // Of any keys, for scoring: zeros for a feature without factors.
  template <typename Key>
  void Read(const Params& params, std::span<const Key> keys, float* out) const {
    found_.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kTableAhead < keys.size()) blocks_.Prefetch(keys[i + kTableAhead]);
      found_[i] = blocks_.Get(keys[i]);
    }
    const size_t ahead = Ahead();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + ahead < keys.size() && found_[i + ahead]) PrefetchBlock(found_[i + ahead]);
      if (found_[i]) {
        ReadBlock(params, found_[i], out + i * width());
      } else {
        std::fill_n(out + i * width(), width(), 0.0f);
      }
    }
  }

  // The rule on the located features. `gradient_scale(i)` multiplies the gradient of feature i.
  template <typename Scale>
  void Update(const Params& params, const float* gradient, Scale gradient_scale) {
    for (size_t i = 0; i < located_.size(); ++i) {
      const float scale = gradient_scale(i);
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
  void DoubleFactors(const Params& params, uint64_t key, Double double_weight) {
    float* block = blocks_.At(key);
    for (size_t f = 0; f < width(); ++f) {
      Slot<float> slot = Form::Unpack(params, LoadOne(block + f));
      double_weight(params, slot);
      StoreOne(Form::Pack(slot), block + f);
    }
  }

  // Whether the feature has factors or state.
  bool IsSeen(uint64_t key) const {
    const float* block = blocks_.Get(key);
    if (!block) return false;
    for (size_t f = 0; f < width() * kPlanes; ++f) {
      if (block[f] != 0) return true;
    }
    return false;
  }

  // The whole state of a feature, planes that are `stride` floats apart.
  void ReadState(const Params& params, uint64_t key, size_t stride, float* state) const {
    const float* block = blocks_.Get(key);
    for (size_t f = 0; f < width(); ++f) {
      Slot<float> slot{};
      if (block) slot = Form::Unpack(params, LoadOne(block + f));
      std::array<float, kWholePlanes> floats;
      std::memcpy(floats.data(), &slot, sizeof slot);
      for (size_t p = 0; p < kWholePlanes; ++p) state[p * stride + f] = floats[p];
    }
  }
  void WriteState(uint64_t key, size_t stride, const float* state) {
    float* block = blocks_.At(key);
    for (size_t f = 0; f < width(); ++f) {
      std::array<float, kWholePlanes> floats;
      for (size_t p = 0; p < kWholePlanes; ++p) floats[p] = state[p * stride + f];
      Slot<float> slot;
      std::memcpy(&slot, floats.data(), sizeof slot);
      StoreOne(Form::Pack(slot), block + f);
    }
  }

 private:
  static constexpr size_t kTableAhead = 32;  // keys
  static constexpr size_t kBytesAhead = 2048, kLine = 64, kMaxLines = 16;

  size_t block_bytes() const { return blocks_.block_floats() * sizeof(float); }
  size_t Ahead() const { return std::max<size_t>(2, kBytesAhead / block_bytes()); }
  void PrefetchBlock(const float* block) const {
    const char* at = reinterpret_cast<const char*>(block);
    const size_t bytes = std::min(block_bytes(), kMaxLines * kLine);
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i, 1);
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

  // Almost always decided by the first factor.
  bool IsNew(const float* block) const {
    for (size_t f = 0; f < width(); ++f) {
      if (block[f] != 0) return false;
    }
    return true;
  }

  template <typename Initial>
  void Initialize(uint64_t key, Initial initial, float* block) {
    initial_.resize(width());
    InitialFactors(shape_, key, initial_);
    for (size_t f = 0; f < width(); ++f) StoreOne(Form::Pack(initial(initial_[f])), block + f);
  }

  FactorShape shape_;
  Blocks blocks_;
  PodVector<float*> located_;
  mutable PodVector<const float*> found_;
  PodVector<float> initial_;
};

}  // namespace millrace::sparse
