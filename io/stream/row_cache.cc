#include "io/stream/row_cache.h"

#include <utility>

namespace millrace::io {
namespace {

uint64_t BytesOf(const Block& block) {
  return block.bytes.capacity() + block.records.capacity() * sizeof(RecordSpan) + sizeof block;
}

}  // namespace

bool RowCache::Begin(size_t file) {
  if (max_bytes_ == 0 || entries_[file].state != State::kEmpty) return false;
  entries_[file].state = State::kFilling;
  return true;
}

bool RowCache::Add(size_t file, std::shared_ptr<const Block> block) {
  Entry& entry = entries_[file];
  const uint64_t bytes = BytesOf(*block);
  if (bytes_ + bytes > max_bytes_) {
    Drop(entry);
    entry.state = State::kTooLarge;
    return false;
  }
  bytes_ += bytes;
  entry.blocks.push_back(std::move(block));
  return true;
}

void RowCache::End(size_t file) { entries_[file].state = State::kComplete; }

void RowCache::Abandon(size_t file) {
  Drop(entries_[file]);
  entries_[file].state = State::kEmpty;
}

void RowCache::Drop(Entry& entry) {
  for (const auto& block : entry.blocks) bytes_ -= BytesOf(*block);
  entry.blocks.clear();
}

const RowCache::Blocks* RowCache::Find(size_t file) const {
  return entries_[file].state == State::kComplete ? &entries_[file].blocks : nullptr;
}

}  // namespace millrace::io
