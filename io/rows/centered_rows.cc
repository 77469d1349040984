// SPDX-License-Identifier: Apache-2.0
#include "io/rows/centered_rows.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::io {
namespace {

class CenteredRows final : public RowDecoder {
 public:
  CenteredRows(std::unique_ptr<RowDecoder> decoder, std::span<const ValueCenter> centers)
      : decoder_(std::move(decoder)),
        centers_(centers.begin(), centers.end()),
        seen_in_(centers.size()) {
    for (size_t c = 0; c < centers_.size(); ++c) numbers_[centers_[c].key] = c;
  }

  Status Append(std::string_view record, BatchBuilder& rows) override {
    const size_t rows_before = rows.batch.rows(), begin = rows.nnz();
    RETURN_IF_ERROR(decoder_->Append(record, rows));
    if (rows.batch.rows() == rows_before) return {};  // a comment
    const size_t end = rows.nnz();
    rows.batch.values.resize(end, 1.0f);
    ++row_;
    size_t missing = centers_.size();
    for (size_t i = begin; i < end; ++i) {
      const auto found = numbers_.find(rows.wide ? rows.wide_keys[i] : rows.batch.cols[i]);
      // A key that a row repeats counts once: its values add up.
      if (found == numbers_.end() || seen_in_[found->second] == row_) continue;
      rows.batch.values[i] -= centers_[found->second].center;
      seen_in_[found->second] = row_;
      --missing;
    }
    if (missing > 0) AddMissing(missing, rows);
    return {};
  }

 private:
  void AddMissing(size_t missing, BatchBuilder& rows) const {
    uint64_t* wide = rows.wide ? rows.WideRoom(missing) : nullptr;
    uint32_t* narrow = rows.wide ? nullptr : rows.NarrowRoom(missing);
    for (size_t c = 0; c < centers_.size(); ++c) {
      if (seen_in_[c] == row_) continue;
      if (wide) {
        *wide++ = centers_[c].key;
      } else {
        *narrow++ = static_cast<uint32_t>(centers_[c].key);
      }
      rows.batch.values.push_back(-centers_[c].center);
    }
    rows.batch.row_begin.back() += static_cast<uint32_t>(missing);
  }

  std::unique_ptr<RowDecoder> decoder_;
  std::vector<ValueCenter> centers_;
  std::unordered_map<uint64_t, size_t> numbers_;  // by key
  std::vector<uint64_t> seen_in_;                 // the last row with this feature
  uint64_t row_ = 0;
};

}  // namespace

std::unique_ptr<RowDecoder> CenterRows(std::unique_ptr<RowDecoder> decoder,
                                       std::span<const ValueCenter> centers) {
  return std::make_unique<CenteredRows>(std::move(decoder), centers);
}

}  // namespace millrace::io
