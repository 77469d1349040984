// SPDX-License-Identifier: Apache-2.0
#include "io/stream/block_pool.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "io/stream/row_cache.h"
#include "io/table/table_query.h"

namespace millrace::io {
namespace {
// A free block keeps at most this much memory, so that one huge record does not hold it forever.
constexpr size_t kMaxFreeBytes = 4 << 20;
}  // namespace

PooledBlock& BlockPool::Take() {
  if (free_.empty()) {
    blocks_.push_back(std::make_unique<PooledBlock>());
    blocks_.back()->number = static_cast<uint32_t>(blocks_.size() - 1);
    return *blocks_.back();
  }
  PooledBlock& block = *blocks_[free_.back()];
  free_.pop_back();
  return block;
}

void BlockPool::GiveBack(PooledBlock& block) {
  held_bytes_ -= std::min<uint64_t>(held_bytes_, block.block.bytes.size());
  block.block.bytes.clear();
  block.block.records.clear();
  block.origins.clear();
  block.cached.reset();
  block.live = block.total = 0;
  if (block.block.bytes.capacity() > kMaxFreeBytes) block.block.bytes = RawBuffer();
  free_.push_back(block.number);
}

RecordOrigin BlockPool::Origin(const RecordRef& ref) const {
  const PooledBlock& block = at(ref.block);
  if (block.cached) return {block.path, CachedRecordOffset({ref.data, ref.size})};
  const std::vector<RecordSpan>& records = block.block.records;
  const auto begin = static_cast<uint32_t>(ref.data - block.block.bytes.data());
  const auto found =
      std::lower_bound(records.begin(), records.end(), begin,
                       [](const RecordSpan& span, uint32_t at) { return span.begin < at; });
  const auto index = static_cast<size_t>(found - records.begin());
  if (!block.origins.empty()) return block.origins[index];
  return {block.path, block.block.offset(index, block.framing)};
}

namespace {

std::optional<uint64_t> LineAt(const RecordOrigin& origin) {
  if (!IsRegularInput(*origin.path)) return std::nullopt;
  const Result<OpenedSource> source = OpenSource(*origin.path);
  if (!source.ok()) return std::nullopt;
  std::vector<char> bytes(256 << 10);
  uint64_t line = 1;
  for (uint64_t at = 0; at < origin.offset;) {
    const size_t size = std::min<uint64_t>(bytes.size(), origin.offset - at);
    size_t got = 0;
    if (!source->bytes->Read({bytes.data(), size}, &got).ok() || got == 0) return std::nullopt;
    line += static_cast<uint64_t>(
        std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got), '\n'));
    at += got;
  }
  return line;
}

}  // namespace

std::string LocationText(const RecordOrigin& origin, Framing framing) {
  if (framing == Framing::kTable) {
    return TableName(*origin.path) + ": row " + std::to_string(origin.offset + 1) + ": ";
  }
  std::string text = *origin.path;
  if (framing != Framing::kTfRecord) {
    if (const std::optional<uint64_t> line = LineAt(origin)) text += ":" + std::to_string(*line);
  }
  return text + ": offset " + std::to_string(origin.offset) + ": ";
}

}  // namespace millrace::io
