// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/row_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "sparse/kernels.h"
#include "sparse/row_sums.h"

namespace millrace::score {
namespace {

constexpr size_t kChunkEntries = 2048;
constexpr size_t kPrefetchAhead = 32;  // entries

Status RowError(size_t row, const std::string& what) {
  return Invalid("row " + std::to_string(row) + ": " + what);
}

template <WeightsType kType>
void LoadNumbers(const char* entry, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = LoadNumber<kType>(entry + i * (kType == WeightsType::kF32 ? 4 : 2));
  }
}

Status CheckRow(const KeyRows& rows, size_t r, size_t number) {
  const uint64_t begin = rows.row_begin[r], end = rows.row_begin[r + 1];
  if (begin <= end && end - begin <= std::numeric_limits<uint32_t>::max() / 2) return {};
  return RowError(number, "expected row_begin to ascend, found " + std::to_string(begin) +
                              " and then " + std::to_string(end));
}

Status CheckValues(const uint64_t* keys, const float* values, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; values && i < end; ++i) {
    if (std::isfinite(values[i])) continue;
    return Invalid("value of key " + io::KeyName(keys[i]) + ": expected a finite number, found " +
                   io::NumberText(values[i]));
  }
  return {};
}

// Keys from here on have no entry.
uint64_t KeyLimit(const ServingModel& model) {
  return model.info().num_features == 0 ? io::kInterceptKey : model.info().num_features;
}

template <Layout kLayout, bool kFactors>
void PrefetchKey(const Table& table, uint64_t key, uint64_t limit) {
  if (key >= limit) return;
  if constexpr (kLayout == Layout::kDense && !kFactors) {
    __builtin_prefetch(table.Find(key));
  } else {
    table.Prefetch(key);
  }
}

}  // namespace

Status TooManyKeys(uint64_t max_keys) {
  return Invalid("expected at most " + std::to_string(max_keys) +
                 " keys in one call, found more: score fewer rows in a call");
}

void RowScorer::Entries::Clear() {
  weights.clear();
  factors.clear();
  values.clear();
  keys.clear();
  fields.clear();
}

template <Layout kLayout, WeightsType kType, bool kFactors>
Status RowScorer::Load(const ServingModel& model, const Part& part, Entries& out,
                       uint64_t& unknown) {
  const Table& table = model.table();
  const uint64_t limit = KeyLimit(model);
  const size_t width = kFactors ? table.shape().numbers - 1 : 0;
  const size_t before = out.size();
  out.weights.resize(before + (part.end - part.begin));
  if constexpr (kFactors) out.factors.resize((before + (part.end - part.begin)) * width);
  size_t at = before;
  uint64_t zeros = 0;
  for (uint64_t i = part.begin; i < part.end; ++i) {
    if (i + kPrefetchAhead < part.ahead) {
      PrefetchKey<kLayout, kFactors>(table, part.keys[i + kPrefetchAhead], limit);
    }
    const uint64_t key = part.keys[i];
    if (key >= limit) {
      if (key == io::kInterceptKey) {
        return Invalid("key: expected one below " + std::to_string(io::kInterceptKey) +
                       ", which stands for the intercept");
      }
      ++unknown;
      continue;
    }
    const char* const entry = table.Find(key);
    float weight = 0;
    if (kLayout == Layout::kDense || entry) {
      weight = LoadNumber<kType>(entry);
      if constexpr (kFactors) {
        LoadNumbers<kType>(entry + (kType == WeightsType::kF32 ? 4 : 2), width,
                           &out.factors[at * width]);
      }
    } else if constexpr (kFactors) {
      std::fill_n(&out.factors[at * width], width, 0.0f);
    }
    zeros += weight == 0;
    out.weights[at++] = weight;
  }
  unknown += zeros;
  out.weights.resize(at);
  if constexpr (kFactors) out.factors.resize(at * width);
  for (uint64_t i = part.begin; part.want_values && i < part.end; ++i) {
    if (part.keys[i] < limit) out.values.push_back(part.values ? part.values[i] : 1.0f);
  }
  for (uint64_t i = part.begin; part.want_keys && i < part.end; ++i) {
    if (part.keys[i] < limit) out.keys.push_back(part.keys[i]);
  }
  return kFactors && model.num_fields() > 0 ? LoadFields(model, part, out) : Status();
}

Status RowScorer::LoadFields(const ServingModel& model, const Part& part, Entries& out) {
  if (!part.fields && part.begin < part.end) {
    return Invalid("fields: expected the field of each key, as the model is an " +
                   sparse::KindText(model.info().factors) + ", found none");
  }
  const uint64_t limit = KeyLimit(model);
  for (uint64_t i = part.begin; i < part.end; ++i) {
    if (part.fields[i] >= model.num_fields()) {
      return Invalid("field of key " + io::KeyName(part.keys[i]) + ": expected one below " +
                     std::to_string(model.num_fields()) + ", found " +
                     std::to_string(part.fields[i]));
    }
    if (part.keys[i] < limit) out.fields.push_back(part.fields[i]);
  }
  return {};
}

template <Layout kLayout>
RowScorer::Loader RowScorer::LoaderOf(const TableShape& shape) {
  const bool factors = shape.numbers > 1;
  switch (shape.type) {
    case WeightsType::kF32:
      return factors ? Load<kLayout, WeightsType::kF32, true>
                     : Load<kLayout, WeightsType::kF32, false>;
    case WeightsType::kF16:
      return factors ? Load<kLayout, WeightsType::kF16, true>
                     : Load<kLayout, WeightsType::kF16, false>;
    case WeightsType::kBf16:
      return factors ? Load<kLayout, WeightsType::kBf16, true>
                     : Load<kLayout, WeightsType::kBf16, false>;
  }
  return nullptr;
}

// Chooses the loop for the model.
void RowScorer::Use(const ServingModel& model) {
  const TableShape& shape = model.table().shape();
  load_ = shape.layout == Layout::kDense ? LoaderOf<Layout::kDense>(shape)
                                         : LoaderOf<Layout::kHash>(shape);
}

void RowScorer::BeginRows() {
  entries_.Clear();
  batch_.row_begin.assign(1, 0);
}

void RowScorer::EndRow(const ServingModel& model, size_t before) {
  AddCenters(model, before);
  batch_.row_begin.push_back(static_cast<uint32_t>(entries_.size()));
}

Status RowScorer::Margins(const ServingModel& model, const KeyRows& rows, std::span<float> margins,
                          KeyCounts& counts, size_t first_row) {
  Use(model);
  for (size_t row = 0; row < rows.rows();) {
    size_t end = row;
    const uint64_t begin = rows.row_begin[row];
    do {
      RETURN_IF_ERROR(CheckRow(rows, end, first_row + end));
      ++end;
    } while (end < rows.rows() && rows.row_begin[end + 1] - begin <= kChunkEntries);
    RETURN_IF_ERROR(Gather(model, rows, row, end, first_row, counts));
    Sum(model, margins.subspan(row, end - row));
    row = end;
  }
  for (size_t r = 0; r < rows.rows(); ++r) {
    if (std::isfinite(margins[r])) continue;
    const Status status =
        CheckValues(rows.keys, rows.values, rows.row_begin[r], rows.row_begin[r + 1]);
    if (!status.ok()) return RowError(first_row + r, status.message());
  }
  return {};
}

Status RowScorer::Gather(const ServingModel& model, const KeyRows& rows, size_t row, size_t end,
                         size_t first_row, KeyCounts& counts) {
  const bool centers = !model.info().centers.empty();
  BeginRows();
  Part part = {.keys = rows.keys,
               .values = rows.values,
               .fields = rows.fields,
               .begin = rows.row_begin[row],
               .end = rows.row_begin[row],
               .ahead = rows.row_begin[end],
               .want_values = rows.values || centers,
               .want_keys = centers};
  Prefetch(model, part);
  counts.keys += part.ahead - part.begin;
  for (size_t r = row; r < end; ++r) {
    const size_t before = entries_.size();
    part.begin = part.end;
    part.end = rows.row_begin[r + 1];
    if (Status status = load_(model, part, entries_, counts.unknown); !status.ok()) {
      return RowError(first_row + r, status.message());
    }
    EndRow(model, before);
  }
  return {};
}

// The first keys; those behind them are fetched while these are looked up.
void RowScorer::Prefetch(const ServingModel& model, const Part& part) {
  const uint64_t limit = KeyLimit(model);
  const uint64_t end = std::min<uint64_t>(part.ahead, part.begin + kPrefetchAhead);
  for (uint64_t i = part.begin; i < end; ++i) {
    if (part.keys[i] < limit) model.table().Prefetch(part.keys[i]);
  }
}

Status RowScorer::SetContext(const ServingModel& model, std::span<const uint64_t> keys,
                             const float* values, const uint16_t* fields) {
  Use(model);
  context_.Clear();
  context_keys_ = keys;
  context_values_ = values;
  context_begin_.assign(1, 0);
  context_unknown_.assign(1, 0);
  Part part = {.keys = keys.data(),
               .values = values,
               .fields = fields,
               .begin = 0,
               .end = 0,
               .ahead = keys.size(),
               .want_values = true,
               .want_keys = true};
  Prefetch(model, part);
  uint64_t unknown = 0;
  for (part.end = 1; part.end <= keys.size(); ++part.end) {
    part.begin = part.end - 1;
    RETURN_IF_ERROR(load_(model, part, context_, unknown));
    context_begin_.push_back(static_cast<uint32_t>(context_.size()));
    context_unknown_.push_back(static_cast<uint32_t>(unknown));
  }
  return {};
}

void RowScorer::AddShared(const io::SharedRun& run, const Part& part, KeyCounts& counts) {
  const size_t begin = context_begin_[run.first], end = context_begin_[run.first + run.shared];
  const auto append = [&](const auto& from, auto& to, size_t width) {
    to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(begin * width),
              from.begin() + static_cast<ptrdiff_t>(end * width));
  };
  append(context_.weights, entries_.weights, 1);
  if (!context_.factors.empty()) {
    append(context_.factors, entries_.factors, context_.factors.size() / context_.size());
  }
  if (!context_.fields.empty()) append(context_.fields, entries_.fields, 1);
  if (part.want_values) append(context_.values, entries_.values, 1);
  if (part.want_keys) append(context_.keys, entries_.keys, 1);
  counts.keys += run.shared;
  counts.unknown += context_unknown_[run.first + run.shared] - context_unknown_[run.first];
}

Status RowScorer::CandidateMargins(const ServingModel& model, const CandidateKeys& rows,
                                   std::span<float> margins, KeyCounts& counts, uint64_t max_keys,
                                   size_t first_row) {
  const bool centers = !model.info().centers.empty();
  Part part = {.keys = rows.keys.data(),
               .values = rows.values,
               .fields = rows.fields,
               .begin = 0,
               .end = 0,
               .ahead = rows.keys.size(),
               .want_values = context_values_ || rows.values || centers,
               .want_keys = centers};
  Prefetch(model, part);
  size_t run = 0;
  for (size_t row = 0; row < rows.rows();) {
    BeginRows();
    size_t end = row;
    do {
      const size_t before = entries_.size();
      const uint64_t own = part.end;
      for (; run < rows.run_end[end]; ++run) {
        AddShared(rows.runs[run], part, counts);
        part.begin = part.end;
        part.end += rows.runs[run].own;
        if (Status status = load_(model, part, entries_, counts.unknown); !status.ok()) {
          return RowError(first_row + end, status.message());
        }
      }
      counts.keys += part.end - own;
      if (counts.keys > max_keys) return TooManyKeys(max_keys);
      EndRow(model, before);
      ++end;
    } while (end < rows.rows() && entries_.size() < kChunkEntries);
    Sum(model, margins.subspan(row, end - row));
    row = end;
  }
  RETURN_IF_ERROR(CheckCandidates(rows, margins, first_row));
  return {};
}

Status RowScorer::CheckCandidates(const CandidateKeys& rows, std::span<const float> margins,
                                  size_t first_row) const {
  size_t run = 0;
  uint64_t own = 0;
  for (size_t r = 0; r < rows.rows(); ++r) {
    const uint64_t begin = own;
    for (; run < rows.run_end[r]; ++run) own += rows.runs[run].own;
    if (std::isfinite(margins[r])) continue;
    Status status = CheckValues(context_keys_.data(), context_values_, 0, context_keys_.size());
    if (!status.ok()) return Invalid("context: " + status.message());
    status = CheckValues(rows.keys.data(), rows.values, begin, own);
    if (!status.ok()) return RowError(first_row + r, status.message());
  }
  return {};
}

// As io::CenterRows: the first entry of a centered key loses the center, and a row without one gets
// an entry of minus the center behind the others.
void RowScorer::AddCenters(const ServingModel& model, size_t before) {
  const std::vector<io::ValueCenter>& centers = model.info().centers;
  if (centers.empty()) return;
  seen_.assign(centers.size(), 0);
  for (size_t i = before; i < entries_.size(); ++i) {
    const auto found = std::lower_bound(
        centers.begin(), centers.end(), entries_.keys[i],
        [](const io::ValueCenter& center, uint64_t key) { return center.key < key; });
    if (found == centers.end() || found->key != entries_.keys[i]) continue;
    uint8_t& seen = seen_[static_cast<size_t>(found - centers.begin())];
    if (!seen) entries_.values[i] -= found->center;
    seen = 1;
  }
  for (size_t c = 0; c < centers.size(); ++c) {
    if (seen_[c]) continue;
    const float value = -centers[c].center;
    uint64_t unknown = 0;
    const Part part = {.keys = &centers[c].key,
                       .values = &value,
                       .fields = nullptr,
                       .begin = 0,
                       .end = 1,
                       .ahead = 0,
                       .want_values = true,
                       .want_keys = true};
    CHECK(load_(model, part, entries_, unknown).ok());
  }
}

void RowScorer::Sum(const ServingModel& model, std::span<float> margins) {
  for (auto i = static_cast<uint32_t>(batch_.cols.size()); i < entries_.size(); ++i) {
    batch_.cols.push_back(i);
  }
  batch_.labels.resize(margins.size());  // tells the number of rows
  batch_.values.swap(entries_.values);
  if (io::NeedsWideKeys(model.info().num_features)) {
    sparse::NativeKernels().margins(batch_, entries_.weights, margins);
  } else {
    const float* weights = entries_.weights.data();
    sparse::internal::SumRows(
        batch_, margins.data(), [=](uint32_t i) { return weights[i]; }, [](size_t) {});
  }
  sparse::AddIntercept(model.info().intercept, margins);
  if (const size_t width = model.info().factors.width(); width > 0) {
    sparse::FactorKernelsFor().margins(
        {.row_begin = batch_.row_begin,
         .features = batch_.cols.data(),
         .values = batch_.values.empty() ? nullptr : batch_.values.data(),
         .factors = entries_.factors.data(),
         .width = width,
         .fields = entries_.fields.empty() ? nullptr : entries_.fields.data(),
         .num_fields = model.info().factors.fields},
        sums_, margins);
  }
  batch_.values.swap(entries_.values);
}

}  // namespace millrace::score
