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
#include "sparse/factor_blocks.h"
#include "sparse/factor_kernels.h"
#include "sparse/factor_slots.h"
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
  return a.Rate() == b.Rate() && a.l1 == b.l1 && a.l2 == b.l2 && a.factor_l2 == b.factor_l2 &&
         a.ftrl_beta == b.ftrl_beta && a.key_groups.groups == b.key_groups.groups;
}

UpdateOptions OptionsOf(uint64_t key, const UpdateOptions& options) {
  if (key == io::kInterceptKey) return InterceptOptions(options);
  return GroupOptions(options, GroupCursor(options.key_groups.ranges).Of(key));
}

// The rule's parameters in a step, by key.
template <typename Params, Params (*ParamsAt)(const UpdateOptions&, uint64_t)>
class StepParams {
 public:
  StepParams(const UpdateOptions& options, uint64_t t)
      : run_(ParamsAt(options, t)), cursor_(options.key_groups.ranges) {
    for (size_t g = 1; g <= options.key_groups.groups.size(); ++g) {
      groups_.push_back(ParamsAt(GroupOptions(options, g), t));
    }
  }
  const Params& Of(uint64_t key) {
    if (groups_.empty()) return run_;
    const size_t group = cursor_.Of(key);
    return group == 0 ? run_ : groups_[group - 1];
  }

 private:
  Params run_;
  std::vector<Params> groups_;
  GroupCursor cursor_;
};

std::array<float, kMaxSlotFloats> SlotFor(const UpdateOptions& options, float w) {
  if (w == 0) return {};
  if (options.rule != Rule::kFtrl) return {w, 0, 0};
  return {w, FtrlZ(FtrlParamsAt(options, 1), w), 0};
}

// The state of a factor that was just initialised.
template <typename Params, typename Slot = typename Packed<Params>::template Slot<float>>
Slot InitialSlot(const Params& params, float factor) {
  Slot slot{};
  slot.w = factor;
  if constexpr (std::is_same_v<Params, FtrlParams>) slot.z = FtrlZ(params, factor);
  return slot;
}

template <typename Slot>
constexpr size_t kFloats = sizeof(Slot) / sizeof(float);

// A slot read or written for each key.
template <typename Slot>
profiler::TraceArgs TouchedKeys(size_t keys) {
  return {.bytes = static_cast<int64_t>(keys * sizeof(Slot)), .keys = static_cast<int64_t>(keys)};
}

// `Params` is the rule's; `Table` holds its slots in the form `Form`, with the numbers of blocks if
// the model has factors.
template <typename Params, Params (*ParamsAt)(const UpdateOptions&, uint64_t), typename Form,
          template <typename> typename Table, bool kFactors>
class TableStore final : public LocalStore {
 public:
  template <typename... TableArgs>
  TableStore(const ModelShape& shape, const UpdateOptions& options, TableArgs... args)
      : LocalStore(shape, options), table_(args...) {
    if (options.normalize) scales_.emplace(args...);
    if constexpr (kFactors) factors_.emplace(shape.factors, shape.whole_key);
    entry_.resize(TableStore::slot_floats());
  }

  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override {
    TRACE_SCOPE("pull", profiler::Cat::kCompute, TouchedKeys<State>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    KeyParams params(options_, steps_ + 1);
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    for (size_t i = 0; i < features.size(); ++i) {
      if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
      weights[i] = Form::Weight(params.Of(features[i]), table_.Get(features[i]));
    }
    FinishPull(keys, weights);
    return {};
  }

  Status PullBatch(uint64_t /*batch*/, std::span<const uint64_t> keys,
                   std::span<float> weights) override {
    if constexpr (!kFactors) return Pull(keys, weights);
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    const std::span<float> factors = weights.last(features.size() * factor_width());
    RETURN_IF_ERROR(Pull(keys, weights.first(weights.size() - factors.size())));
    if constexpr (kFactors) {
      const Params params = FactorParams(steps_ + 1);
      factors_->Reserve(features.size());
      for (size_t i = 0; i < features.size(); ++i) {
        if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
        factors_->Locate(i, table_.At(features[i]).block);
      }
      factors_->Gather(
          params, features, InitialOf(params), [] {}, factors.data());
      ScaleFactors(features, factors);
    }
    return {};
  }

  Status PeekBatch(std::span<const uint64_t> keys, std::span<float> weights) override {
    if constexpr (!kFactors) return Pull(keys, weights);
    TRACE_SCOPE("pull", profiler::Cat::kCompute, FactorBytes(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    const std::span<float> factors = weights.last(features.size() * factor_width());
    weights = weights.first(weights.size() - factors.size());
    if constexpr (kFactors) {
      KeyParams params(options_, steps_ + 1);
      const Params factor_params = FactorParams(steps_ + 1);
      const auto block = [&](size_t i) {
        if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
        const TableSlot& slot = table_.Get(features[i]);
        weights[i] = Form::Weight(params.Of(features[i]), slot);
        return BlockOrCount(slot);
      };
      factors_->Peek(
          factor_params, features.size(), block, [&](size_t i) { return features[i]; },
          InitialOf(factor_params), factors.data());
      ScaleFactors(features, factors);
    }
    FinishPull(keys, weights);
    return {};
  }

  Status PullFactors(std::span<const uint64_t> features, std::span<float> factors) override {
    if constexpr (kFactors) {
      TRACE_SCOPE("pull", profiler::Cat::kCompute, FactorBytes(features.size()));
      RETURN_IF_ERROR(CheckKeys(features));
      ReadFactors(features, factors.data());
      ScaleFactors(features, factors);
    }
    return {};
  }

  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient,
              const PushInfo& /*info*/) override {
    TRACE_SCOPE("push", profiler::Cat::kCompute, TouchedKeys<State>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    KeyParams step_params(options_, ++steps_);
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    if constexpr (kFactors) factors_->Reserve(features.size());
    for (size_t i = 0; i < features.size(); ++i) {
      if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
      TableSlot& state = table_.At(features[i]);
      const Params& params = step_params.Of(features[i]);
      if constexpr (kFactors) {
        factors_->Locate(i, state.block);
        factors_->CountBatch(state.block);
      }
      float g = gradient[i];
      if (scales_) {
        const bool has_scale = gradient.size() > keys.size();
        const ScaleCode now = has_scale ? ScaleFor(gradient[keys.size() + i]) : kUnitScale;
        ScaleCode& scale = scales_->At(features[i]);
        if (now > scale) Grow(features[i], std::exchange(scale, now), now, state);
        g *= InverseScale(scale);
      }
      Update(params, g, state);
    }
    if (features.size() < keys.size()) UpdateIntercept(gradient[features.size()]);
    if constexpr (kFactors) {
      const Params factor_params = FactorParams(steps_);
      factors_->Initialize(features, InitialOf(factor_params));
      factors_->Update(
          factor_params, features.size(), gradient.last(features.size() * factor_width()).data(),
          [&](size_t i) { return scales_ ? InverseScale(scales_->Get(features[i])) : 1.0f; });
    }
    return {};
  }

  size_t slot_floats() const override {
    return kFloats<Slot> * (1 + factor_width()) + (counts_batches() ? 1 : 0) + (scales_ ? 1 : 0);
  }

  void ForEach(const Visit& visit) const override {
    static constexpr State kUnseen{};
    const Params factor_params = FactorParams(steps_ + 1);
    const auto visit_seen = [&](const Params& params, uint64_t key, const State& state,
                                uint32_t block_or_count, ScaleCode scale) {
      const uint32_t block = BlockNumber(block_or_count), count = BatchCount(block_or_count);
      bool has_factors = false;
      if constexpr (kFactors) has_factors = block != 0 && factors_->IsSeen(block);
      const bool is_unseen = std::memcmp(&state, &kUnseen, sizeof kUnseen) == 0;
      if (scale == kNoScale && is_unseen && !has_factors && count == 0) return;
      const Slot slot = Form::Unpack(params, state);
      const size_t parameters = 1 + factor_width();
      std::array<float, kFloats<Slot>> planes;
      std::memcpy(planes.data(), &slot, sizeof slot);
      std::fill(entry_.begin(), entry_.end(), 0.0f);
      for (size_t p = 0; p < planes.size(); ++p) entry_[p * parameters] = planes[p];
      if constexpr (kFactors) {
        if (has_factors) factors_->ReadState(factor_params, block, parameters, &entry_[1]);
      }
      for (size_t i = 0; i < parameters; ++i) entry_[i] *= InverseScale(scale);
      if (counts_batches()) {
        entry_[planes.size() * parameters] =
            static_cast<float>(block != 0 ? shape_.factors.admit - 1 : count);
      }
      if (scales_) entry_.back() = ScaleValue(scale);
      visit(key, entry_);
    };
    KeyParams params(options_, steps_ + 1);
    table_.ForEach([&](uint64_t key, const TableSlot& slot) {
      visit_seen(params.Of(key), key, slot, BlockOrCount(slot),
                 scales_ ? scales_->Get(key) : kNoScale);
    });
    visit_seen(InterceptParams(steps_ + 1), io::kInterceptKey, intercept_, 0, kNoScale);
  }

  Status Load(uint64_t key, std::span<const float> state) override {
    if (state.size() != slot_floats()) {
      return Invalid("state of a feature: expected " + std::to_string(slot_floats()) +
                     " numbers, found " + std::to_string(state.size()));
    }
    RETURN_IF_ERROR(CheckKeys({&key, 1}));
    const size_t parameters = 1 + factor_width();
    const auto last_plane = state.subspan((kFloats<Slot> - 1) * parameters, parameters);
    const auto negative = std::find_if(last_plane.begin(), last_plane.end(),
                                       [](float last) { return std::signbit(last); });
    if (!kSgd && negative != last_plane.end()) {
      return Invalid("state of feature " + io::KeyName(key) +
                     ": expected a sum of squares, found " + io::NumberText(*negative));
    }
    std::array<float, kFloats<Slot>> planes;
    for (size_t p = 0; p < planes.size(); ++p) planes[p] = state[p * parameters];
    Slot slot;
    std::memcpy(&slot, planes.data(), sizeof slot);
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
    if constexpr (kFactors) {
      if (key != io::kInterceptKey) RETURN_IF_ERROR(LoadFactors(key, state));
    }
    Put(slot, key == io::kInterceptKey ? intercept_ : table_.At(key));
    return {};
  }

  bool direct() const override {
    const bool sums_per_key = kSgd && (options_.l2 > 0 || kFactors);
    return kIndexed && shape_.num_features <= (uint64_t{1} << 32) && !sums_per_key &&
           options_.key_groups.empty();
  }

  void DirectMargins(const io::CsrBatch& batch, std::span<float> margins) const override {
    CHECK(direct() && !batch.compacted);
    const Params params = ParamsAt(options_, steps_ + 1);
    if constexpr (kIndexed) {
      sparse::DirectMargins(params, scales_ ? Scaled(batch) : batch, table_.data(), margins);
    }
    if (shape_.intercept) AddIntercept(InterceptWeight(), margins);
    if constexpr (kFactors) {
      AddFactorMargins(
          scales_ ? scaled_ : batch, shape_.factors,
          [&](size_t first, size_t count, float* out) {
            ReadFactors(std::span<const uint32_t>(&batch.cols[first], count), out);
          },
          margins);
    }
  }

  void DirectBegin(const io::CsrBatch& batch, std::span<float> margins) override {
    CHECK(direct() && !batch.compacted);
    const io::CsrBatch& scaled = scales_ ? GrowAndScale(batch) : batch;
    const Params params = ParamsAt(options_, steps_ + 1);
    if constexpr (kIndexed && kSgd) sparse::DirectMargins(params, scaled, table_.data(), margins);
    if constexpr (kIndexed && !kSgd) {
      if constexpr (kFactors) factors_->Reserve(batch.nnz());
      tagged_.Begin(params, scaled, table_.data(), margins, [&](size_t i, TableSlot& slot) {
        if constexpr (kFactors) factors_->Locate(i, slot.block);
      });
    }
    if (shape_.intercept) AddIntercept(InterceptWeight(), margins);
  }

  void DirectFinish(const io::CsrBatch& batch, std::span<const float> residuals) override {
    const Params params = ParamsAt(options_, ++steps_);
    const io::CsrBatch& scaled = scales_ ? scaled_ : batch;
    if constexpr (kIndexed && kSgd && !kFactors)
      DirectSgdStep(params, scaled, residuals, table_.data());
    if constexpr (kIndexed && !kSgd) tagged_.Finish(params, scaled, residuals, table_.data());
    if (shape_.intercept) UpdateIntercept(InterceptGradient(residuals));
  }

  void DirectFactorsBegin(const io::CsrBatch& batch, const io::CsrBatch* next,
                          std::span<float> margins) override {
    if constexpr (kIndexed && !kSgd && kFactors) {
      const std::span<const uint32_t> features = tagged_.features();
      profiler::TraceScope op("gather_factors", profiler::Cat::kCompute,
                              FactorBytes(features.size()));
      const Params params = FactorParams(steps_ + 1);
      factor_values_.resize(features.size() * factor_width());
      // These passes work in the cache, so that the memory is free for the next batch: its slots
      // now, and the blocks that they name during the update.
      static const io::CsrBatch kNone;
      internal::SlotPrefetcher<TableSlot> next_slots(next ? *next : kNone, table_.data());
      const size_t at_once = NextAtOnce(next, features.size());
      factors_->Gather(
          params, features, InitialOf(params), [&] { next_slots.Fetch(at_once); },
          factor_values_.data());
      op.Then("factor_margins", profiler::Cat::kCompute, FactorBytes(batch.nnz()));
      FactorKernelsFor().margins(FactorRowsOf(batch), factor_sums_, margins);
    }
  }

  void DirectFactorsFinish(const io::CsrBatch& batch, const io::CsrBatch* next,
                           std::span<const float> residuals) override {
    if constexpr (kIndexed && !kSgd && kFactors) {
      profiler::TraceScope op("factor_gradient", profiler::Cat::kCompute, FactorBytes(batch.nnz()));
      factor_gradient_.resize(factor_values_.size());
      FactorKernelsFor().gradient(FactorRowsOf(batch), residuals, factor_sums_, factor_gradient_);
      const size_t features = tagged_.features().size();
      op.Then("factor_update", profiler::Cat::kCompute, FactorBytes(features));
      const std::span<const uint32_t> cols =
          next ? std::span(next->cols.data(), next->nnz()) : std::span<const uint32_t>();
      const size_t at_once = NextAtOnce(next, features);
      factors_->Update(FactorParams(steps_ + 1), features, factor_gradient_.data(), [&](size_t i) {
        const size_t end = std::min((i + 1) * at_once, cols.size());
        for (size_t at = i * at_once; at < end; ++at) {
          factors_->Prefetch(BlockOf(table_.Get(cols[at])));
        }
        return 1.0f;
      });
    }
  }

  SgdSlot* hogwild_slots() override {
    if constexpr (kIndexed && kSgd && !kFactors) {
      if (direct()) return table_.data();
    }
    return nullptr;
  }

  SgdSlot* hogwild_intercept() override {
    if constexpr (kIndexed && kSgd && !kFactors) {
      if (direct() && shape_.intercept) return &intercept_;
    }
    return nullptr;
  }

 private:
  using State = typename Form::template State<float>;
  using Slot = typename Form::template Slot<float>;
  static constexpr bool kSgd = std::is_same_v<Params, SgdParams>;
  using TableSlot = std::conditional_t<kFactors, BlockSlot<State>, State>;
  static constexpr bool kIndexed = requires(Table<TableSlot> & table) { table.data(); };
  struct Nothing {};
  using KeyParams = StepParams<Params, ParamsAt>;

  Params FactorParams(uint64_t t) const { return ParamsAt(FactorUpdateOptions(options_), t); }
  profiler::TraceArgs FactorBytes(size_t count) const {
    return {.bytes = static_cast<int64_t>(count * factor_width() * sizeof(float)),
            .keys = static_cast<int64_t>(count)};
  }
  static auto InitialOf(const Params& params) {
    return [&params](float factor) { return InitialSlot(params, factor); };
  }
  // Entries of the next batch to prefetch with each of `features`.
  static size_t NextAtOnce(const io::CsrBatch* next, size_t features) {
    return next ? (next->nnz() + features - 1) / std::max<size_t>(features, 1) : 0;
  }
  // Whether entries have the number of batches that a feature without factors was in.
  bool counts_batches() const { return kFactors && shape_.factors.admit > 1; }
  static uint32_t BlockOrCount(const TableSlot& slot) {
    if constexpr (kFactors) return slot.block;
    return 0;
  }
  static uint32_t BlockOf(const TableSlot& slot) { return BlockNumber(BlockOrCount(slot)); }
  // The number of the i-th feature's block, for i = 0, 1, ...
  template <typename Key>
  auto BlockOfEach(std::span<const Key> features) const {
    return [this, features](size_t i) {
      if (i + kPrefetchAhead < features.size()) table_.Prefetch(features[i + kPrefetchAhead]);
      return BlockOf(table_.Get(features[i]));
    };
  }
  template <typename Key>
  void ReadFactors(std::span<const Key> features, float* out) const {
    factors_->Read(FactorParams(steps_ + 1), features.size(), BlockOfEach(features), out);
  }
  // The entries of the batch whose margins tagged_ computed.
  FactorRows FactorRowsOf(const io::CsrBatch& batch) const {
    FactorRows rows;
    if constexpr (kIndexed && !kSgd) {
      const io::CsrBatch& scaled = scales_ ? scaled_ : batch;
      rows = {.row_begin = batch.row_begin,
              .features = tagged_.numbers(),
              .values = scaled.values.empty() ? nullptr : scaled.values.data(),
              .factors = factor_values_.data(),
              .width = factor_width(),
              .fields = FieldsFor(shape_.factors, batch),
              .num_fields = shape_.factors.fields};
    }
    return rows;
  }
  // The factors of values as they are, from those of normalised ones.
  void ScaleFactors(std::span<const uint64_t> features, std::span<float> factors) const {
    if (!scales_) return;
    for (size_t i = 0; i < factors.size(); ++i) {
      factors[i] *= InverseScale(scales_->Get(features[i / factor_width()]));
    }
  }
  Status LoadFactors(uint64_t key, std::span<const float> state) {
    const size_t parameters = 1 + factor_width();
    std::copy(state.begin(), state.end(), entry_.begin());
    const float scale = scales_ && state.back() > 0 ? state.back() : 1;
    for (size_t i = 1; i < parameters; ++i) entry_[i] *= scale;
    uint32_t& block = table_.At(key).block;
    factors_->WriteState(block, parameters, &entry_[1]);
    if (!counts_batches() || BlockNumber(block) != 0) return {};
    const float count = state[kFloats<Slot> * parameters];
    if (!(count >= 0 && count < static_cast<float>(shape_.factors.admit)) ||
        count != std::floor(count)) {
      return Invalid("state of feature " + io::KeyName(key) +
                     ": expected a number of batches below " +
                     std::to_string(shape_.factors.admit) + ", found " + io::NumberText(count));
    }
    block = count > 0 ? kCountsBatches | static_cast<uint32_t>(count) : 0;
    return {};
  }

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

  // `weights` has those of the features' slots: makes them those of values as they are, and adds
  // the intercept, and the scales if there is room for them.
  void FinishPull(std::span<const uint64_t> keys, std::span<float> weights) const {
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    if (scales_) PullScaled(features, keys.size(), weights);
    if (features.size() == keys.size()) return;
    weights[features.size()] = InterceptWeight();
    if (weights.size() > keys.size()) weights.back() = 1;
  }

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
  void Grow(uint64_t key, ScaleCode from, ScaleCode to, TableSlot& state) {
    static constexpr State kUnseen{};
    if constexpr (kFactors) {
      if (from != kNoScale && to == from + 1) {
        factors_->DoubleFactors(FactorParams(steps_ + 1), BlockOf(state),
                                [](const Params& p, Slot& slot) { DoubleWeight(p, slot); });
      }
    }
    if (std::memcmp(&state, &kUnseen, sizeof kUnseen) == 0) return;
    if (from == kNoScale) {
      const UpdateOptions options = OptionsOf(key, options_);
      const float w = Form::Weight(ParamsAt(options, 1), state);
      const auto floats = SlotFor(options, w * ScaleValue(to));
      Slot slot;
      std::memcpy(&slot, floats.data(), sizeof slot);
      Put(slot, state);
    } else if (to == from + 1) {
      const Params params = KeyParams(options_, steps_ + 1).Of(key);
      Slot slot = Form::Unpack(params, state);
      DoubleWeight(params, slot);
      Put(slot, state);
    }
  }

  // The batch with normalised values. Its scales do not change.
  const io::CsrBatch& Scaled(const io::CsrBatch& batch) const {
    scaled_.row_begin = batch.row_begin;
    scaled_.cols = batch.cols;
    scaled_.fields = batch.fields;
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
        if (i == 0 || grown_[i - 1].col != col) Grow(col, from, scales[col], table_.At(col));
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

  Table<TableSlot> table_;
  State intercept_{};                                 // all zero without one
  std::optional<Table<ScaleCode>> scales_;            // if the options say normalize
  std::optional<FactorSlots<Params>> factors_;        // if the model has factors
  PodVector<float> factor_values_, factor_gradient_;  // [features][width], of a step
  FactorSums factor_sums_;
  mutable std::vector<float> entry_;  // [slot_floats]
  mutable io::CsrBatch scaled_;
  struct Growth {
    uint32_t col;
    ScaleCode from;
  };
  std::vector<Growth> grown_;  // in this batch
  std::conditional_t<kIndexed && !kSgd, TaggedStep<Params, TableSlot>, Nothing> tagged_;
};

template <typename Params, template <typename> typename RuleState,
          Params (*ParamsAt)(const UpdateOptions&, uint64_t), bool kFactors>
std::unique_ptr<LocalStore> MakeWith(const ModelShape& shape, const UpdateOptions& options) {
  if (shape.num_features == 0) {
    using Open = TableStore<Params, ParamsAt, Whole<Params, RuleState>, HashedKeyTable, kFactors>;
    return std::make_unique<Open>(shape, options);
  }
  using Indexed = TableStore<Params, ParamsAt, Packed<Params>, DenseIndexTable, kFactors>;
  return std::make_unique<Indexed>(shape, options, shape.num_features);
}

template <typename Params, template <typename> typename RuleState,
          Params (*ParamsAt)(const UpdateOptions&, uint64_t)>
std::unique_ptr<LocalStore> Make(const ModelShape& shape, const UpdateOptions& options) {
  return shape.factors.width() > 0 ? MakeWith<Params, RuleState, ParamsAt, true>(shape, options)
                                   : MakeWith<Params, RuleState, ParamsAt, false>(shape, options);
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

Status LocalStore::LoadWeight(uint64_t key, float weight, std::span<const float> factors) {
  const bool is_intercept = key == io::kInterceptKey;
  CHECK(factors.empty() || (factors.size() == factor_width() && !is_intercept));
  state_.assign(slot_floats(), 0);  // no scale yet
  const size_t parameters = 1 + factor_width(), planes = rule_floats() / parameters;
  const auto set = [&](size_t parameter, const UpdateOptions& options, float value) {
    const auto slot = SlotFor(options, value);
    for (size_t p = 0; p < planes; ++p) state_[p * parameters + parameter] = slot[p];
  };
  set(0, OptionsOf(key, options_), weight);
  if (!factors.empty()) {
    const UpdateOptions options = FactorUpdateOptions(options_);
    for (size_t i = 0; i < factors.size(); ++i) set(1 + i, options, factors[i]);
  }
  return Load(key, state_);
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
  state_.resize(slot_floats());
  const std::span<float> changed = state_;
  std::copy(state.begin(), state.end(), changed.begin());
  if (gets_scale) changed.back() = ScaleValue(is_intercept ? kNoScale : kUnitScale);
  changed[0] += add;
  if (changes_z) {
    FtrlParams params = FtrlParamsAt(OptionsOf(key, options_), 1);
    // z is that of normalized values, the weight that of values as they are.
    const float scale = options_.normalize && changed.back() > 0 ? changed.back() : 1;
    const size_t parameters = 1 + factor_width();
    for (size_t i = 0; i < parameters; ++i) {
      if (i == 1) params = FtrlParamsAt(FactorUpdateOptions(options_), 1);
      const float w = changed[i] * scale, n = changed[2 * parameters + i];
      float& z = changed[parameters + i];
      z = w != 0 ? FtrlZ(params, w, n) : std::clamp(z, -params.l1, params.l1);
    }
  }
  return Load(key, changed);
}

Result<std::unique_ptr<LocalStore>> LocalStore::Create(const ModelShape& shape,
                                                       const UpdateOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  RETURN_IF_ERROR(shape.factors.Validate());
  if (shape.factors.kind != ModelKind::kLr && options.rule == Rule::kFtrl &&
      options.ftrl_beta == 0 && options.factor_l2 == 0) {
    return Invalid(
        "ftrl forgets the initial factors without both: expected ftrl_beta or factor_l2 above 0, "
        "found 0");
  }
  if (shape.factors.admit > 1 && shape.num_features > 0) {
    return Invalid(
        "admit_factors: expected a hashed-key table (num_features = 0), or 1, found num_features "
        "= " +
        std::to_string(shape.num_features));
  }
  try {
    return MakeFor(shape, options);
  } catch (const std::bad_alloc& error) {
    return Invalid("num_features = " + std::to_string(shape.num_features) +
                   ": not enough memory for the model" + AllocationText(error));
  }
}

}  // namespace millrace::sparse
