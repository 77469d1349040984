#include "sparse/local_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "profiler/trace.h"
#include "sparse/direct_step.h"
#include "sparse/indexed_table.h"
#include "sparse/open_table.h"

namespace millrace::sparse {
namespace {

using io::Result;
using io::Status;

constexpr size_t kPrefetchAhead = 32;

template <typename Slot>
constexpr size_t kFloats = sizeof(Slot) / sizeof(float);

// A slot read or written for each key.
template <typename Slot>
profiler::TraceArgs TouchedKeys(size_t keys) {
  return {.bytes = static_cast<int64_t>(keys * sizeof(Slot)), .keys = static_cast<int64_t>(keys)};
}

// `Params` is the rule's; `Table` holds its slots.
template <typename Slot, typename Params, Params (*ParamsAt)(const UpdateOptions&, uint64_t),
          typename Table>
class TableStore final : public LocalStore {
 public:
  template <typename... TableArgs>
  TableStore(const ModelShape& shape, const UpdateOptions& options, TableArgs... args)
      : LocalStore(shape, options), table_(args...) {}

  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override {
    TRACE_SCOPE("pull", profiler::Cat::kCompute, TouchedKeys<Slot>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kPrefetchAhead < keys.size()) table_.Prefetch(keys[i + kPrefetchAhead]);
      weights[i] = table_.Get(keys[i]).w;
    }
    return {};
  }

  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient) override {
    TRACE_SCOPE("push", profiler::Cat::kCompute, TouchedKeys<Slot>(keys.size()));
    RETURN_IF_ERROR(CheckKeys(keys));
    const Params params = ParamsAt(options_, ++steps_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kPrefetchAhead < keys.size()) table_.Prefetch(keys[i + kPrefetchAhead]);
      Slot& slot = table_.At(keys[i]);
      Step(params, gradient[i], slot);
    }
    return {};
  }

  size_t slot_floats() const override { return kFloats<Slot>; }

  void ForEach(const Visit& visit) const override {
    static constexpr Slot kUnseen{};
    table_.ForEach([&](uint64_t key, const Slot& slot) {
      if (std::memcmp(&slot, &kUnseen, sizeof kUnseen) == 0) return;
      visit(key, {&slot.w, kFloats<Slot>});
    });
  }

  Status Load(uint64_t key, std::span<const float> state) override {
    if (state.size() != kFloats<Slot>) {
      return io::Invalid("state of a feature: expected " + std::to_string(kFloats<Slot>) +
                         " numbers, found " + std::to_string(state.size()));
    }
    RETURN_IF_ERROR(CheckKeys({&key, 1}));
    Slot& slot = table_.At(key);
    std::memcpy(&slot.w, state.data(), state.size_bytes());
    return {};
  }

  bool direct() const override {
    const bool l2_per_key = std::is_same_v<Slot, SgdSlot> && options_.l2 > 0;
    return kIndexed && shape_.num_features <= (uint64_t{1} << 32) && !l2_per_key;
  }

  void DirectMargins(const io::CsrBatch& batch, std::span<float> margins) const override {
    CHECK(direct() && !batch.compacted);
    if constexpr (kIndexed) sparse::DirectMargins(batch, table_.data(), margins);
  }

  void DirectPush(const io::CsrBatch& batch, std::span<const float> slopes) override {
    CHECK(direct() && !batch.compacted);
    const Params params = ParamsAt(options_, ++steps_);
    if constexpr (kIndexed) DirectStep(params, batch, slopes, table_.data(), touched_);
  }

  SgdSlot* hogwild_slots() override {
    if constexpr (kIndexed && std::is_same_v<Slot, SgdSlot>) {
      if (direct()) return table_.data();
    }
    return nullptr;
  }

 private:
  // Keys are sorted: the last one is the largest.
  Status CheckKeys(std::span<const uint64_t> keys) const {
    if (keys.empty() || table_.Holds(keys.back())) return {};
    return io::Invalid("key: expected below num_features = " + std::to_string(shape_.num_features) +
                       ", found " + std::to_string(keys.back()));
  }

  static constexpr bool kIndexed = requires(Table & table) { table.data(); };

  Table table_;
  io::PodVector<uint32_t> touched_;  // scratch
};

constexpr size_t kMaxSlotFloats = 3;

// FTRL computes w from z and n, so a weight alone is no state. We take the state of a feature whose
// gradients are forgotten (n = 0) and whose z gives w by the rule
//   w = -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2),  sign(z) = -sign(w)
// that is
//   z = -w (beta / rate + l2) - sign(w) l1
// All other rules keep w itself, with the rest of the slot zero.
float FtrlZ(const FtrlParams& p, float w) {
  return -w * (p.beta * p.inverse_rate + p.l2) - std::copysign(p.l1, w);
}

std::array<float, kMaxSlotFloats> SlotFor(const UpdateOptions& options, float w) {
  if (w == 0) return {};
  if (options.rule != Rule::kFtrl) return {w, 0, 0};
  return {w, FtrlZ(FtrlParamsAt(options, 1), w), 0};
}

// What an indexed model keeps of a feature: SGD needs no sum.
template <typename Slot>
using IndexedSlot = std::conditional_t<std::is_same_v<Slot, SgdSlot>, SgdSlot, SummingSlot<Slot>>;

template <typename Slot, typename Params, Params (*ParamsAt)(const UpdateOptions&, uint64_t)>
std::unique_ptr<LocalStore> Make(const ModelShape& shape, const UpdateOptions& options) {
  if (shape.num_features == 0) {
    using Open = TableStore<Slot, Params, ParamsAt, OpenTable<Slot>>;
    return std::make_unique<Open>(shape, options);
  }
  using Table = IndexedTable<IndexedSlot<Slot>>;
  using Indexed = TableStore<Slot, Params, ParamsAt, Table>;
  return std::make_unique<Indexed>(shape, options, shape.num_features);
}

std::unique_ptr<LocalStore> MakeFor(const ModelShape& shape, const UpdateOptions& options) {
  switch (options.rule) {
    case Rule::kSgd:
      return Make<SgdSlot, SgdParams, SgdParamsAt>(shape, options);
    case Rule::kAdaGrad:
      return Make<AdaGradSlot, AdaGradParams, AdaGradParamsAt>(shape, options);
    case Rule::kFtrl:
      return Make<FtrlSlot, FtrlParams, FtrlParamsAt>(shape, options);
    case Rule::kAdam:
      return Make<AdamSlot, AdamParams, AdamParamsAt>(shape, options);
  }
  return nullptr;
}

}  // namespace

Status LocalStore::LoadWeight(uint64_t key, float weight) {
  const auto slot = SlotFor(options_, weight);
  return Load(key, {slot.data(), slot_floats()});
}

Result<std::unique_ptr<LocalStore>> LocalStore::Create(const ModelShape& shape,
                                                       const UpdateOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  try {
    return MakeFor(shape, options);
  } catch (const std::bad_alloc&) {
    return io::Invalid("num_features = " + std::to_string(shape.num_features) +
                       ": not enough memory for the model");
  }
}

}  // namespace millrace::sparse
