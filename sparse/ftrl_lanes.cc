// SPDX-License-Identifier: Apache-2.0
#include "sparse/ftrl_lanes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "io/base/huge_array.h"
#include "io/base/pod_vector.h"
#include "sparse/dense_index_table.h"
#include "sparse/direct_step.h"
#include "sparse/float8.h"
#include "sparse/kernels.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {
namespace {

using io::CsrBatch;

template <typename F>
constexpr size_t kLanes = sizeof(F) / sizeof(float);

template <typename F>
float Lane(const F& x, size_t lane) {
  std::array<float, kLanes<F>> floats;
  std::memcpy(floats.data(), &x, sizeof x);
  return floats[lane];
}

template <typename X, typename Value>
void SetLane(X& x, size_t lane, Value value) {
  static_assert(sizeof value == sizeof(float));
  std::memcpy(reinterpret_cast<char*>(&x) + lane * sizeof value, &value, sizeof value);
}

// One row's element of [models][rows], as a vector, and back.
template <typename F>
F LoadRow(std::span<const float> all, size_t models, size_t rows, size_t row) {
  std::array<float, kLanes<F>> floats{};
  for (size_t m = 0; m < models; ++m) floats[m] = all[m * rows + row];
  F x;
  std::memcpy(&x, floats.data(), sizeof x);
  return x;
}

template <typename F>
void StoreRow(const F& x, size_t models, size_t rows, size_t row, std::span<float> all) {
  std::array<float, kLanes<F>> floats;
  std::memcpy(floats.data(), &x, sizeof x);
  for (size_t m = 0; m < models; ++m) all[m * rows + row] = floats[m];
}

// SumRows of row_sums.h for one model per lane: take(r, sum) gets the sum of row r.
template <bool kOnes, typename F, typename Weight, typename BeforeRow, typename Take>
void SumRowsOf(const CsrBatch& batch, Weight weight, BeforeRow before_row, Take take) {
  const uint32_t* row_begin = batch.row_begin.data();
  const float* values = batch.values.data();
  const auto term = [=](uint32_t i) -> F {
    if constexpr (kOnes) return weight(i);
    return values[i] * weight(i);
  };
  for (size_t r = 0; r < batch.rows(); ++r) {
    before_row(r);
    uint32_t i = row_begin[r];
    const uint32_t end = row_begin[r + 1];
    F a{}, b{}, c{}, d{};
    for (; i + 4 <= end; i += 4) {
      a += term(i);
      b += term(i + 1);
      c += term(i + 2);
      d += term(i + 3);
    }
    for (; i < end; ++i) a += term(i);
    take(r, (a + b) + (c + d));
  }
}

template <typename F, typename Weight, typename BeforeRow, typename Take>
void SumRows(const CsrBatch& batch, Weight weight, BeforeRow before_row, Take take) {
  if (batch.values.empty()) return SumRowsOf<true, F>(batch, weight, before_row, take);
  SumRowsOf<false, F>(batch, weight, before_row, take);
}

// Slots of the features that were seen, in the order of their first sight, and the number of each
// feature's slot. Most features of a large index are never seen: a slot of 64 bytes for each of
// them would take more time to zero than the training.
template <typename Slot>
class SlotTable {
 public:
  explicit SlotTable(uint64_t num_features) : numbers_(num_features) { AddChunk(); }

  // 0 if the feature was never seen: slot 0 is all zero.
  uint32_t NumberOf(uint64_t key) const { return numbers_.Get(key); }
  uint32_t NumberOrNew(uint64_t key) {
    uint32_t& number = numbers_.At(key);
    if (number == 0) {
      if (++last_ % kChunk == 0) AddChunk();
      number = last_;
    }
    return number;
  }
  Slot& operator[](uint32_t number) { return chunks_[number / kChunk][number % kChunk]; }
  const Slot& operator[](uint32_t number) const {
    return chunks_[number / kChunk][number % kChunk];
  }
  void PrefetchNumber(uint64_t key) const { numbers_.Prefetch(key); }
  void Prefetch(uint64_t key) const { __builtin_prefetch(&(*this)[NumberOf(key)], 1); }

  // visit(key, slot) for every feature that was seen, in the order of keys.
  template <typename Visit>
  void ForEach(Visit visit) const {
    numbers_.ForEach([&](uint64_t key, uint32_t number) {
      if (number != 0) visit(key, (*this)[number]);
    });
  }

 private:
  static constexpr uint32_t kChunk = (uint32_t{8} << 20) / sizeof(Slot);  // slots in 8 MB

  void AddChunk() { chunks_.emplace_back(kChunk); }

  DenseIndexTable<uint32_t> numbers_;
  std::vector<HugeArray<Slot>> chunks_;
  uint32_t last_ = 0;  // slot
};

// Prefetches the slots of a batch's entries, some at a time, in the order of entries: first their
// numbers, then the slots.
template <typename Slot>
class SlotFetcher {
 public:
  SlotFetcher(const CsrBatch& batch, const SlotTable<Slot>& table)
      : cols_(batch.cols.data()), end_(batch.nnz()), table_(table) {
    while (next_number_ < std::min(kAhead, end_)) table_.PrefetchNumber(cols_[next_number_++]);
    Fetch(internal::kDirectPrefetch);
  }
  void Fetch(size_t count) {
    for (size_t stop = std::min(next_number_ + count, end_); next_number_ < stop; ++next_number_)
      table_.PrefetchNumber(cols_[next_number_]);
    for (size_t stop = std::min(next_slot_ + count, end_); next_slot_ < stop; ++next_slot_)
      table_.Prefetch(cols_[next_slot_]);
  }

 private:
  static constexpr size_t kAhead = internal::kDirectPrefetch;  // of a slot's prefetch

  const uint32_t* cols_;
  const size_t end_;
  const SlotTable<Slot>& table_;
  size_t next_number_ = 0, next_slot_ = 0;
};

// F: one lane per model.
template <typename F>
class Lanes final : public FtrlLanes {
 public:
  Lanes(const ModelShape& shape, std::span<const UpdateOptions> options)
      : shape_(shape), models_(options.size()), table_(shape.num_features) {
    for (size_t m = 0; m < kLanes<F>; ++m) {
      // A lane without a model has any numbers: its gradients are 0.
      const UpdateOptions& own = options[std::min(m, models_ - 1)];
      SetParams(FtrlParamsAt(own, 1), m, params_);
      SetParams(FtrlParamsAt(InterceptOptions(own), 1), m, intercept_params_);
    }
  }

  void Margins(const CsrBatch& batch, std::span<float> margins) const override {
    CHECK(!batch.compacted && margins.size() == models_ * batch.rows());
    const uint32_t* cols = batch.cols.data();
    const uint32_t* row_begin = batch.row_begin.data();
    SlotFetcher<Slot> fetcher(batch, table_);
    const F intercept = InterceptWeight();
    SumRows<F>(
        batch, [&](uint32_t i) { return Weight(params_, table_[table_.NumberOf(cols[i])]); },
        [&](size_t r) { fetcher.Fetch(row_begin[r + 1] - row_begin[r]); },
        [&](size_t r, F sum) { Put(batch, r, sum, intercept, margins); });
  }

  void Begin(const CsrBatch& batch, std::span<float> margins) override {
    CHECK(!batch.compacted && margins.size() == models_ * batch.rows());
    Reserve(batch.nnz());
    Tag(batch);
    for (size_t i = 0; i < count_; ++i) weights_[i] = Weight(params_, states_[i]);
    const F* weights = weights_.data();
    const uint32_t* numbers = numbers_.data();
    const F intercept = InterceptWeight();
    SumRows<F>(
        batch, [=](uint32_t i) { return weights[numbers[i]]; }, [](size_t) {},
        [&](size_t r, F sum) { Put(batch, r, sum, intercept, margins); });
  }

  void Finish(const CsrBatch& batch, std::span<const float> residuals) override {
    Gradient(batch, residuals);
    for (size_t i = 0; i < count_; ++i) {
      const Slot before = states_[i];
      FtrlState<F> slot{weights_[i], before.z, before.n};
      Step(params_, gradient_[i], slot);
      table_[touched_[i]] = Changed(before, slot, (gradient_[i] == 0) | frozen_);
    }
    if (shape_.intercept) UpdateIntercept(batch.rows(), residuals);
  }

  void Freeze(size_t model) override { SetLane(frozen_, model, ~uint32_t{0}); }

  void Load(size_t model, uint64_t key, float z, float n) override {
    Slot& slot = key == io::kInterceptKey ? intercept_ : table_[table_.NumberOrNew(key)];
    SetLane(slot.z, model, z);
    SetLane(slot.n, model, n);
  }

  Status CopyTo(size_t model, LocalStore& store) const override {
    Status status;
    const auto copy = [&](const FtrlParamsOf<F>& params, uint64_t key, const Slot& slot) {
      const float z = Lane(slot.z, model), n = Lane(slot.n, model);
      const bool is_unseen = std::bit_cast<uint32_t>(z) == 0 && std::bit_cast<uint32_t>(n) == 0;
      if (is_unseen || !status.ok()) return;
      const std::array<float, 3> state = {Lane(Weight(params, slot), model), z, n};
      status = store.Load(key, state);
    };
    table_.ForEach([&](uint64_t key, const Slot& slot) { copy(params_, key, slot); });
    copy(intercept_params_, io::kInterceptKey, intercept_);
    return status;
  }

 private:
  using Mask = decltype(F{} == 0);
  struct Slot {
    F z, n;
  };
  static constexpr uint32_t kTag = 0x80000000u;

  static void SetParams(const FtrlParams& from, size_t lane, FtrlParamsOf<F>& to) {
    SetLane(to.inverse_rate, lane, from.inverse_rate);
    SetLane(to.beta, lane, from.beta);
    SetLane(to.l1, lane, from.l1);
    SetLane(to.l2, lane, from.l2);
  }

  static F Weight(const FtrlParamsOf<F>& params, const Slot& slot) {
    return FtrlWeight(params, slot.z, Sqrt(slot.n));
  }
  F InterceptWeight() const { return Weight(intercept_params_, intercept_); }

  void Put(const CsrBatch& batch, size_t r, F sum, F intercept, std::span<float> margins) const {
    StoreRow(shape_.intercept ? sum + intercept : sum, models_, batch.rows(), r, margins);
  }

  static Slot Changed(const Slot& before, const FtrlState<F>& after, Mask unchanged) {
    // A NaN may be negative.
    return {Select(unchanged, before.z, after.z), Abs(Select(unchanged, before.n, after.n))};
  }

  void Reserve(size_t nnz) {
    numbers_.resize(nnz);
    touched_.resize(nnz + 1);  // a spare one, as below: see Tag
    states_.resize(nnz + 1);
    weights_.resize(nnz + 1);
    gradient_.resize(nnz + 1);
  }

  // As in TaggedStep. The tag is in the n of the first model.
  void Tag(const CsrBatch& batch) {
    const uint32_t* cols = batch.cols.data();
    const size_t nnz = batch.nnz();
    SlotFetcher<Slot> fetcher(batch, table_);
    uint32_t count = 0;
    for (size_t i = 0; i < nnz; ++i) {
      fetcher.Fetch(1);
      const uint32_t at = table_.NumberOrNew(cols[i]);
      Slot& slot = table_[at];
      uint32_t first;
      std::memcpy(&first, &slot.n, sizeof first);
      const bool seen = (first & kTag) != 0;
      const uint32_t number = seen ? first & ~kTag : count;
      touched_[count] = at;
      states_[count] = slot;
      const uint32_t tag = number | kTag;
      std::memcpy(&slot.n, &tag, sizeof tag);
      numbers_[i] = number;
      count += !seen;
    }
    count_ = count;
  }

  // g = X^T e
  void Gradient(const CsrBatch& batch, std::span<const float> residuals) {
    F* gradient = gradient_.data();
    std::fill_n(gradient, count_, F{});
    const uint32_t* row_begin = batch.row_begin.data();
    const uint32_t* numbers = numbers_.data();
    const float* values = batch.values.empty() ? nullptr : batch.values.data();
    for (size_t r = 0; r < batch.rows(); ++r) {
      const F residual = LoadRow<F>(residuals, models_, batch.rows(), r);
      for (uint32_t i = row_begin[r]; i < row_begin[r + 1]; ++i) {
        gradient[numbers[i]] += values ? values[i] * residual : residual;
      }
    }
  }

  void UpdateIntercept(size_t rows, std::span<const float> residuals) {
    F gradient{};
    for (size_t m = 0; m < models_; ++m) {
      SetLane(gradient, m, InterceptGradient(residuals.subspan(m * rows, rows)));
    }
    FtrlState<F> slot{InterceptWeight(), intercept_.z, intercept_.n};
    Step(intercept_params_, gradient, slot);
    intercept_ = Changed(intercept_, slot, frozen_);
  }

  const ModelShape shape_;
  const size_t models_;
  FtrlParamsOf<F> params_, intercept_params_;
  SlotTable<Slot> table_;
  Slot intercept_{};
  Mask frozen_{};
  // Of a step:
  size_t count_ = 0;             // features of the batch
  PodVector<uint32_t> numbers_;  // [entries]
  PodVector<uint32_t> touched_;  // slots: [features], like those below
  PodVector<Slot> states_;       // before the step
  PodVector<F> weights_, gradient_;
};

}  // namespace

bool FtrlLanes::Suits(const ModelShape& shape, const UpdateOptions& options) {
  return options.rule == Rule::kFtrl && !options.normalize && options.key_groups.empty() &&
         shape.factors.kind == ModelKind::kLr && shape.num_features > 0 &&
         shape.num_features < (uint64_t{1} << 32);
}

Result<std::unique_ptr<FtrlLanes>> FtrlLanes::Create(const ModelShape& shape,
                                                     std::span<const UpdateOptions> options) {
  CHECK(!options.empty() && options.size() <= kMost);
  for (const UpdateOptions& own : options) {
    CHECK(Suits(shape, own));
    RETURN_IF_ERROR(own.Validate());
  }
  try {
    if (options.size() <= kLanes<Float4>) {
      return std::unique_ptr<FtrlLanes>(std::make_unique<Lanes<Float4>>(shape, options));
    }
    return std::unique_ptr<FtrlLanes>(std::make_unique<Lanes<Float8>>(shape, options));
  } catch (const std::bad_alloc& error) {
    return Invalid("num_features = " + std::to_string(shape.num_features) +
                   ": not enough memory for " + std::to_string(options.size()) + " models" +
                   AllocationText(error));
  }
}

}  // namespace millrace::sparse
