// SPDX-License-Identifier: Apache-2.0
#include "sparse/local_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "profiler/trace.h"
#include "sparse/dense_index_table.h"
#include "sparse/direct_step.h"
#include "sparse/hashed_key_table.h"
#include "sparse/kernels.h"
#include "sparse/tagged_step.h"
#include "sparse/update_rules.h"
#include "sparse/value_scale.h"

namespace millrace::sparse {
namespace {

constexpr size_t kPrefetchAhead = 32;
constexpr size_t kMaxSlotFloats = 3;

// FTRL computes w from z and n, so a weight alone is no state. We take the state of a feature whose
// gradients are forgotten (n = 0) and whose z gives w by the rule
//   w = -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2),  sign(z) = -sign(w)
// that is
//   z = -w (beta / rate + l2) - sign(w) l1
// All other rules keep w itself, with the rest of the slot zero.
float FtrlZ(const FtrlParams& p, float w, float n = 0) {
  return -w * ((p.beta + std::sqrt(n)) * p.inverse_rate + p.l2) - std::copysign(p.l1, w);
}

bool SameFtrl(const UpdateOptions& a, const UpdateOptions& b) {
  return a.Rate() == b.Rate() && a.l1 == b.l1 && a.l2 == b.l2 && a.ftrl_beta == b.ftrl_beta;
}

std::array<float, kMaxSlotFloats> SlotFor(const UpdateOptions& options, float w) {
  if (w == 0) return {};
  if (options.rule != Rule::kFtrl) return {w, 0, 0};
  return {w, FtrlZ(FtrlParamsAt(options, 1), w), 0};
}

template <typename Slot>
constexpr size_t kFloats = sizeof(Slot) / sizeof(float);

// A slot read or written for each key.
template <typename Slot>
profiler::TraceArgs TouchedKeys(size_t keys) {
  return {.bytes = static_cast<int64_t>(keys * sizeof(Slot)), .keys = static_cast<int64_t>(keys)};
}

// `Params` is the rule's; `Table` holds its slots in the form `Form`.
template <typename Params, Params (*ParamsAt)(const UpdateOptions&, uint64_t), typename Form,
          template <typename> typename Table>
class TableStore final : public LocalStore {
 public:
  template <typename... TableArgs>
  TableStore(const ModelShape& shape, const UpdateOptions& options, TableArgs... args)
      : LocalStore(shape, options), table_(args...) {
    if (options.normalize) scales_.emplace(args...);
  }

  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override {
    TRACE_SCOPE("pull", profiler::Cat::kCompute, TouchedKeys<State>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    const Params params = ParamsAt(options_, steps_ + 1);
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    for (size_t i = 0; i < features.size(); ++i) {
      if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
      weights[i] = Form::Weight(params, table_.Get(features[i]));
    }
    if (scales_) PullScaled(features, keys.size(), weights);
    if (features.size() == keys.size()) return {};
    weights[features.size()] = InterceptWeight();
    if (weights.size() > keys.size()) weights.back() = 1;
    return {};
  }

  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient,
              const PushInfo& /*info*/) override {
    TRACE_SCOPE("push", profiler::Cat::kCompute, TouchedKeys<State>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    const Params params = ParamsAt(options_, ++steps_);
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    for (size_t i = 0; i < features.size(); ++i) {
      if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
      State& state = table_.At(features[i]);
      float g = gradient[i];
      if (scales_) {
        const bool has_scale = gradient.size() > keys.size();
        const ScaleCode now = has_scale ? ScaleFor(gradient[keys.size() + i]) : kUnitScale;
        ScaleCode& scale = scales_->At(features[i]);
        if (now > scale) Grow(std::exchange(scale, now), now, state);
        g *= InverseScale(scale);
      }
      Update(params, g, state);
    }
    if (features.size() < keys.size()) UpdateIntercept(gradient[features.size()]);
    return {};
  }

  size_t slot_floats() const override { return kFloats<Slot> + (scales_ ? 1 : 0); }

  void ForEach(const Visit& visit) const override {
    static constexpr State kUnseen{};
    const auto visit_seen = [&](const Params& params, uint64_t key, const State& state,
                                ScaleCode scale) {
      if (scale == kNoScale && std::memcmp(&state, &kUnseen, sizeof kUnseen) == 0) return;
      const Slot slot = Form::Unpack(params, state);
      std::array<float, kMaxSlotFloats + 1> floats;
      std::memcpy(floats.data(), &slot, sizeof slot);
      floats[0] *= InverseScale(scale);
      floats[kFloats<Slot>] = ScaleValue(scale);
      visit(key, {floats.data(), slot_floats()});
    };
    const Params params = ParamsAt(options_, steps_ + 1);
    table_.ForEach([&](uint64_t key, const State& state) {
      visit_seen(params, key, state, scales_ ? scales_->Get(key) : kNoScale);
    });
    visit_seen(InterceptParams(steps_ + 1), io::kInterceptKey, intercept_, kNoScale);
  }

  Status Load(uint64_t key, std::span<const float> state) override {
    if (state.size() != slot_floats()) {
      return Invalid("state of a feature: expected " + std::to_string(slot_floats()) +
                     " numbers, found " + std::to_string(state.size()));
    }
    RETURN_IF_ERROR(CheckKeys({&key, 1}));
    if (!kSgd && std::signbit(state[kFloats<Slot> - 1])) {
      return Invalid("state of feature " + io::KeyName(key) +
                     ": expected a sum of squares, found " +
                     io::NumberText(state[kFloats<Slot> - 1]));
    }
    Slot slot;
    std::memcpy(&slot, state.data(), sizeof slot);
    if (scales_ && key != io::kInterceptKey) {
      const ScaleCode scale = ScaleFor(state.back());
      if (ScaleValue(scale) != state.back()) {
        return Invalid("state of feature " + io::KeyName(key) +
                       ": expected a power of two as the scale of its values, found " +
                       io::NumberText(state.back()));
      }
      scales_->At(key) = scale;
      if (scale != kNoScale) slot.w *= ScaleValue(scale);
    }
    Put(slot, key == io::kInterceptKey ? intercept_ : table_.At(key));
    return {};
  }

  bool direct() const override {
    const bool l2_per_key = kSgd && options_.l2 > 0;
    return kIndexed && shape_.num_features <= (uint64_t{1} << 32) && !l2_per_key;
  }

  void DirectMargins(const io::CsrBatch& batch, std::span<float> margins) const override {
    CHECK(direct() && !batch.compacted);
    const Params params = ParamsAt(options_, steps_ + 1);
    if constexpr (kIndexed) {
      sparse::DirectMargins(params, scales_ ? Scaled(batch) : batch, table_.data(), margins);
    }
    if (shape_.intercept) AddIntercept(InterceptWeight(), margins);
  }

  void DirectBegin(const io::CsrBatch& batch, std::span<float> margins) override {
    CHECK(direct() && !batch.compacted);
    const io::CsrBatch& scaled = scales_ ? GrowAndScale(batch) : batch;
    const Params params = ParamsAt(options_, steps_ + 1);
    if constexpr (kIndexed && kSgd) sparse::DirectMargins(params, scaled, table_.data(), margins);
    if constexpr (kIndexed && !kSgd) tagged_.Begin(params, scaled, table_.data(), margins);
    if (shape_.intercept) AddIntercept(InterceptWeight(), margins);
  }

  void DirectFinish(const io::CsrBatch& batch, std::span<const float> residuals) override {
    const Params params = ParamsAt(options_, ++steps_);
    const io::CsrBatch& scaled = scales_ ? scaled_ : batch;
    if constexpr (kIndexed && kSgd) DirectSgdStep(params, scaled, residuals, table_.data());
    if constexpr (kIndexed && !kSgd) tagged_.Finish(params, scaled, residuals, table_.data());
    if (shape_.intercept) UpdateIntercept(InterceptGradient(residuals));
  }

  SgdSlot* hogwild_slots() override {
    if constexpr (kIndexed && kSgd) {
      if (direct()) return table_.data();
    }
    return nullptr;
  }

  SgdSlot* hogwild_intercept() override {
    if constexpr (kIndexed && kSgd) {
      if (direct() && shape_.intercept) return &intercept_;
    }
    return nullptr;
  }

 private:
  using State = typename Form::template State<float>;
  using Slot = typename Form::template Slot<float>;
  static constexpr bool kSgd = std::is_same_v<Params, SgdParams>;
  static constexpr bool kIndexed = requires(Table<State> & table) { table.data(); };
  struct Nothing {};

  // The last float of a rule with more than one is never negative (a NaN may be): update_rules.h.
  static void Put(const Slot& slot, State& state) {
    state = Form::Pack(slot);
    if constexpr (!kSgd) {
      float last;
      char* place = reinterpret_cast<char*>(&state + 1) - sizeof last;
      std::memcpy(&last, place, sizeof last);
      last = std::abs(last);
      std::memcpy(place, &last, sizeof last);
    }
  }

  static void Update(const Params& params, float gradient, State& state) {
    Slot slot = Form::Unpack(params, state);
    Step(params, gradient, slot);
    Put(slot, state);
  }

  Params InterceptParams(uint64_t t) const { return ParamsAt(InterceptOptions(options_), t); }
  float InterceptWeight() const { return Form::Weight(InterceptParams(steps_ + 1), intercept_); }
  // Of the step that steps_ counts already.
  void UpdateIntercept(float gradient) { Update(InterceptParams(steps_), gradient, intercept_); }

  // The weights of values as they are, from those of normalised ones. `weights` is as long as the
  // pulled keys (features and intercept), or twice as long: then the scales follow.
  void PullScaled(std::span<const uint64_t> features, size_t keys, std::span<float> weights) const {
    for (size_t i = 0; i < features.size(); ++i) {
      if (i + kPrefetchAhead < features.size()) scales_->Prefetch(features[i + kPrefetchAhead]);
      const ScaleCode scale = scales_->Get(features[i]);
      weights[i] *= InverseScale(scale);
      if (weights.size() > keys) weights[keys + i] = ScaleValue(scale);
    }
  }

  // The scale of a feature grows. One that had none has the weight of raw values, if any
  // (LoadWeight), and keeps it.
  void Grow(ScaleCode from, ScaleCode to, State& state) {
    static constexpr State kUnseen{};
    if (std::memcmp(&state, &kUnseen, sizeof kUnseen) == 0) return;
    if (from == kNoScale) {
      const float w = Form::Weight(ParamsAt(options_, 1), state);
      const auto floats = SlotFor(options_, w * ScaleValue(to));
      Slot slot;
      std::memcpy(&slot, floats.data(), sizeof slot);
      Put(slot, state);
    } else if (to == from + 1) {
      const Params params = ParamsAt(options_, steps_ + 1);
      Slot slot = Form::Unpack(params, state);
      DoubleWeight(params, slot);
      Put(slot, state);
    }
  }

  // The batch with normalised values. Its scales do not change.
  const io::CsrBatch& Scaled(const io::CsrBatch& batch) const {
    scaled_.row_begin = batch.row_begin;
    scaled_.cols = batch.cols;
    scaled_.labels = batch.labels;
    scaled_.values.resize(batch.nnz());
    if constexpr (kIndexed) {
      const ScaleCode* scales = scales_->data();
      for (size_t i = 0; i < batch.nnz(); ++i) {
        const float value = batch.values.empty() ? 1.0f : batch.values[i];
        scaled_.values[i] = value * InverseScale(scales[batch.cols[i]]);
      }
    }
    return scaled_;
  }

  const io::CsrBatch& GrowAndScale(const io::CsrBatch& batch) {
    if constexpr (kIndexed) {
      ScaleCode* scales = scales_->data();
      const size_t nnz = batch.nnz();
      grown_.clear();
      for (size_t i = 0; i < nnz; ++i) {
        if (i + kPrefetchAhead < nnz) __builtin_prefetch(&scales[batch.cols[i + kPrefetchAhead]]);
        const ScaleCode now = batch.values.empty() ? kUnitScale : ScaleFor(batch.values[i]);
        ScaleCode& scale = scales[batch.cols[i]];
        if (now <= scale) continue;
        grown_.push_back({batch.cols[i], scale});
        scale = now;
      }
      // A feature grows once, from its first scale to its last.
      std::stable_sort(grown_.begin(), grown_.end(),
                       [](const Growth& a, const Growth& b) { return a.col < b.col; });
      for (size_t i = 0; i < grown_.size(); ++i) {
        const auto [col, from] = grown_[i];
        if (i == 0 || grown_[i - 1].col != col) Grow(from, scales[col], table_.At(col));
      }
    }
    return Scaled(batch);
  }

  // Keys are sorted: the last one is the largest.
  Status CheckKeys(std::span<const uint64_t> keys) const {
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    if (features.size() < keys.size() && !shape_.intercept) {
      return Invalid("key: expected none of the intercept, which this model does not have");
    }
    if (features.empty() || table_.Holds(features.back())) return {};
    return Invalid("key: expected below num_features = " + std::to_string(shape_.num_features) +
                   ", found " + std::to_string(features.back()));
  }

  Table<State> table_;
  State intercept_{};                       // all zero without one
  std::optional<Table<ScaleCode>> scales_;  // if the options say normalize
  mutable io::CsrBatch scaled_;
  struct Growth {
    uint32_t col;
    ScaleCode from;
  };
  std::vector<Growth> grown_;  // in this batch
  std::conditional_t<kIndexed && !kSgd, TaggedStep<Params>, Nothing> tagged_;
};

template <typename Params, template <typename> typename RuleState,
          Params (*ParamsAt)(const UpdateOptions&, uint64_t)>
std::unique_ptr<LocalStore> Make(const ModelShape& shape, const UpdateOptions& options) {
  if (shape.num_features == 0) {
    using Open = TableStore<Params, ParamsAt, Whole<Params, RuleState>, HashedKeyTable>;
    return std::make_unique<Open>(shape, options);
  }
  using Indexed = TableStore<Params, ParamsAt, Packed<Params>, DenseIndexTable>;
  return std::make_unique<Indexed>(shape, options, shape.num_features);
}

std::unique_ptr<LocalStore> MakeFor(const ModelShape& shape, const UpdateOptions& options) {
  switch (options.rule) {
    case Rule::kSgd:
      return Make<SgdParams, SgdState, SgdParamsAt>(shape, options);
    case Rule::kAdaGrad:
      return Make<AdaGradParams, AdaGradState, AdaGradParamsAt>(shape, options);
    case Rule::kFtrl:
      return Make<FtrlParams, FtrlState, FtrlParamsAt>(shape, options);
    case Rule::kAdam:
      return Make<AdamParams, AdamState, AdamParamsAt>(shape, options);
  }
  return nullptr;
}

}  // namespace

Status LocalStore::LoadWeight(uint64_t key, float weight) {
  const auto slot =
      SlotFor(key == io::kInterceptKey ? InterceptOptions(options_) : options_, weight);
  std::array<float, kMaxSlotFloats + 1> floats{};
  std::copy(slot.begin(), slot.end(), floats.begin());
  if (options_.normalize) floats[slot_floats() - 1] = 0;  // no scale yet
  return Load(key, {floats.data(), slot_floats()});
}

// With FTRL the weight is a function of z, n and the rule's numbers, so other numbers, or another
// weight (of the intercept), need another z. A weight of 0 needs |z| <= l1.
Status LocalStore::LoadTrainedWith(const UpdateOptions& earlier, uint64_t key,
                                   std::span<const float> state, float add) {
  const bool is_intercept = key == io::kInterceptKey;
  const bool gets_scale = options_.normalize && !earlier.normalize;
  const bool is_complete = state.size() + (gets_scale ? 1 : 0) == slot_floats();
  const bool changes_z = options_.rule == Rule::kFtrl && (add != 0 || !SameFtrl(earlier, options_));
  if (!is_complete || (!gets_scale && !changes_z && add == 0)) return Load(key, state);
  std::array<float, kMaxSlotFloats + 1> floats;
  const std::span<float> changed = std::span(floats).first(slot_floats());
  std::copy(state.begin(), state.end(), changed.begin());
  if (gets_scale) changed.back() = ScaleValue(is_intercept ? kNoScale : kUnitScale);
  changed[0] += add;
  if (changes_z) {
    const FtrlParams params = FtrlParamsAt(is_intercept ? InterceptOptions(options_) : options_, 1);
    // z is that of normalized values, the weight that of values as they are.
    const float scale = options_.normalize && changed.back() > 0 ? changed.back() : 1;
    const float w = changed[0] * scale, z = changed[1], n = changed[2];
    changed[1] = w != 0 ? FtrlZ(params, w, n) : std::clamp(z, -params.l1, params.l1);
  }
  return Load(key, changed);
}

Result<std::unique_ptr<LocalStore>> LocalStore::Create(const ModelShape& shape,
                                                       const UpdateOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  try {
    return MakeFor(shape, options);
  } catch (const std::bad_alloc& error) {
    return Invalid("num_features = " + std::to_string(shape.num_features) +
                   ": not enough memory for the model" + AllocationText(error));
  }
}

}  // namespace millrace::sparse
