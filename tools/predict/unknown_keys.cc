#include "tools/predict/unknown_keys.h"

namespace millrace::tools {
namespace {

constexpr uint64_t kLookedAt = 64;  // one batch of so many
constexpr uint64_t kLeastRows = 10;
constexpr uint64_t kFewPercent = 90;  // of the entries may be unknown without a word

}  // namespace

void UnknownKeys::Look(const trainer::Model& model, const io::CsrBatch& batch) {
  if (batches_++ % kLookedAt != 0) return;
  rows_ += batch.rows();
  const uint32_t entries = batch.row_begin.back();
  entries_ += entries;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t col = batch.cols[i];
    unknown_ += model.Weight(batch.compacted ? batch.keys[col] : col) == 0;
  }
}

std::string UnknownKeys::Warning() const {
  if (rows_ < kLeastRows || unknown_ * 100 <= entries_ * kFewPercent) return "";
  return std::to_string(unknown_ * 100 / entries_) +
         " % of the entries of the input have no weight in the model; likely causes: --hash_bits, "
         "--index_base, --hash_all or --constant differ from the training's, or the model is of "
         "another data set";
}

}  // namespace millrace::tools
