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

void LoadNumbersOf(WeightsType type, const char* entry, size_t count, float* out) {
  switch (type) {
    case WeightsType::kF32:
      return LoadNumbers<WeightsType::kF32>(entry, count, out);
    case WeightsType::kF16:
      return LoadNumbers<WeightsType::kF16>(entry, count, out);
    case WeightsType::kBf16:
      return LoadNumbers<WeightsType::kBf16>(entry, count, out);
  }
}

Status CheckRow(const KeyRows& rows, size_t r, size_t number) {
  const uint64_t begin = rows.row_begin[r], end = rows.row_begin[r + 1];
  if (begin <= end && end - begin <= std::numeric_limits<uint32_t>::max() / 2) return {};
  return RowError(number, "expected row_begin to ascend, found " + std::to_string(begin) +
                              " and then " + std::to_string(end));
}

// Why the margin of a row is not finite: an error unless it is a sum that is too large.
Status CheckValues(const KeyRows& rows, size_t r, size_t number) {
  if (!rows.values) return {};
  for (uint64_t i = rows.row_begin[r]; i < rows.row_begin[r + 1]; ++i) {
    if (std::isfinite(rows.values[i])) continue;
    return RowError(number, "value of key " + io::KeyName(rows.keys[i]) +
                                ": expected a finite number, found " +
                                io::NumberText(rows.values[i]));
  }
  return {};
}

}  // namespace

Status RowScorer::Margins(const ServingModel& model, const KeyRows& rows, std::span<float> margins,
                          KeyCounts* counts, size_t first_row) {
  RETURN_IF_ERROR(GatheredMargins(model, rows, margins, counts, first_row));
  for (size_t r = 0; r < rows.rows(); ++r) {
    if (!std::isfinite(margins[r])) RETURN_IF_ERROR(CheckValues(rows, r, first_row + r));
  }
  return {};
}

Status RowScorer::GatheredMargins(const ServingModel& model, const KeyRows& rows,
                                  std::span<float> margins, KeyCounts* counts, size_t first_row) {
  for (size_t row = 0; row < rows.rows();) {
    size_t end = row;
    const uint64_t begin = rows.row_begin[row];
    do {
      RETURN_IF_ERROR(CheckRow(rows, end, first_row + end));
      ++end;
    } while (end < rows.rows() && rows.row_begin[end + 1] - begin <= kChunkEntries);
    if (Status status = Gather(model, rows, row, end, counts); !status.ok()) {
      return RowError(first_row + row + batch_.labels.size(), status.message());
    }
    Sum(model, margins.subspan(row, end - row));
    row = end;
  }
  return {};
}

Status RowScorer::Gather(const ServingModel& model, const KeyRows& rows, size_t row, size_t end,
                         KeyCounts* counts) {
  const Table& table = model.table();
  const uint64_t num_features = model.info().num_features;
  const uint64_t last = rows.row_begin[end];
  const bool has_values = rows.values != nullptr || !model.info().centers.empty();
  batch_.row_begin.assign(1, 0);
  batch_.labels.clear();
  batch_.values.clear();
  batch_.fields.clear();
  keys_.clear();
  weights_.clear();
  factors_.clear();
  const sparse::FactorShape& factors = model.info().factors;
  const bool has_fields = factors.kind == sparse::ModelKind::kFfm;
  if (has_fields && !rows.fields && last > rows.row_begin[row]) {
    return Invalid("fields: expected the field of each key, as the model is an " +
                   sparse::KindText(factors) + ", found none");
  }
  uint64_t unknown = 0;
  for (size_t r = row; r < end; ++r) {
    const size_t before = weights_.size();
    for (uint64_t i = rows.row_begin[r]; i < rows.row_begin[r + 1]; ++i) {
      if (i + kPrefetchAhead < last) {
        const uint64_t ahead = rows.keys[i + kPrefetchAhead];
        if (num_features == 0 || ahead < num_features) table.Prefetch(ahead);
      }
      const uint64_t key = rows.keys[i];
      if (key == io::kInterceptKey) {
        return Invalid("key: expected one below " + std::to_string(io::kInterceptKey) +
                       ", which stands for the intercept");
      }
      if (has_fields && rows.fields[i] >= factors.fields) {
        return Invalid("field of key " + io::KeyName(key) + ": expected one below " +
                       std::to_string(factors.fields) + ", found " +
                       std::to_string(rows.fields[i]));
      }
      if (num_features > 0 && key >= num_features) {
        ++unknown;
        continue;
      }
      if (has_fields) batch_.fields.push_back(rows.fields[i]);
      Load(table, table.Find(key));
      unknown += weights_.back() == 0;
      keys_.push_back(key);
      if (has_values) batch_.values.push_back(rows.values ? rows.values[i] : 1.0f);
    }
    AddCenters(model, weights_.size() - before);
    batch_.row_begin.push_back(static_cast<uint32_t>(weights_.size()));
    batch_.labels.push_back(0);
  }
  if (counts) {
    counts->keys += last - rows.row_begin[row];
    counts->unknown += unknown;
  }
  return {};
}

void RowScorer::Load(const Table& table, const char* entry) {
  const size_t width = table.shape().numbers - 1;
  const WeightsType type = table.shape().type;
  const size_t at = factors_.size();
  factors_.resize(at + width);
  float weight = 0;
  if (entry) {
    LoadNumbersOf(type, entry, 1, &weight);
    LoadNumbersOf(type, entry + BytesOf(type), width, factors_.data() + at);
  } else {
    std::fill_n(factors_.data() + at, width, 0.0f);
  }
  weights_.push_back(weight);
}

// As io::CenterRows: the first entry of a centered key loses the center, and a row without one gets
// an entry of minus the center behind the others.
void RowScorer::AddCenters(const ServingModel& model, size_t row_entries) {
  const std::vector<io::ValueCenter>& centers = model.info().centers;
  if (centers.empty()) return;
  seen_.assign(centers.size(), 0);
  for (size_t i = keys_.size() - row_entries; i < keys_.size(); ++i) {
    const auto found = std::lower_bound(
        centers.begin(), centers.end(), keys_[i],
        [](const io::ValueCenter& center, uint64_t key) { return center.key < key; });
    if (found == centers.end() || found->key != keys_[i]) continue;
    uint8_t& seen = seen_[static_cast<size_t>(found - centers.begin())];
    if (!seen) batch_.values[i] -= found->center;
    seen = 1;
  }
  for (size_t c = 0; c < centers.size(); ++c) {
    if (seen_[c]) continue;
    Load(model.table(), model.table().Find(centers[c].key));
    keys_.push_back(centers[c].key);
    batch_.values.push_back(-centers[c].center);
  }
}

void RowScorer::Sum(const ServingModel& model, std::span<float> margins) {
  const size_t entries = weights_.size();
  for (auto i = static_cast<uint32_t>(batch_.cols.size()); i < entries; ++i) {
    batch_.cols.push_back(i);
  }
  if (io::NeedsWideKeys(model.info().num_features)) {
    sparse::NativeKernels().margins(batch_, weights_, margins);
  } else {
    const float* weights = weights_.data();
    sparse::internal::SumRows(
        batch_, margins.data(), [=](uint32_t i) { return weights[i]; }, [](size_t) {});
  }
  sparse::AddIntercept(model.info().intercept, margins);
  const size_t width = model.info().factors.width();
  if (width == 0) return;
  sparse::FactorKernelsFor().margins(
      {.row_begin = batch_.row_begin,
       .features = batch_.cols.data(),
       .values = batch_.values.empty() ? nullptr : batch_.values.data(),
       .factors = factors_.data(),
       .width = width,
       .fields = batch_.fields.empty() ? nullptr : batch_.fields.data(),
       .num_fields = model.info().factors.fields},
      sums_, margins);
}

}  // namespace millrace::score
