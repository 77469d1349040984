// The cached blocks of files that have been read once, up to a number of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/record/block_reader.h"

namespace millrace::io {

// Not thread-safe: the owner's mutex guards it.
class RowCache {
 public:
  // Shared, for a block may be in use by the end of one epoch and the beginning of the next at
  // once.
  using Blocks = std::vector<std::shared_ptr<const Block>>;

  RowCache(size_t files, uint64_t max_bytes) : entries_(files), max_bytes_(max_bytes) {}

  // True once for a file: the caller is to add its blocks and say when it has ended.
  bool Begin(size_t file);
  // False when there is no room: the file will be read anew in every epoch.
  bool Add(size_t file, std::shared_ptr<const Block> block);
  void End(size_t file);
  // The reading failed; whoever begins next may try again.
  void Abandon(size_t file);

  // All blocks of the file; null while there are not all.
  const Blocks* Find(size_t file) const;
  uint64_t bytes() const { return bytes_; }

 private:
  enum class State { kEmpty, kFilling, kComplete, kTooLarge };
  struct Entry {
    State state = State::kEmpty;
    Blocks blocks;
  };
  void Drop(Entry& entry);

  std::vector<Entry> entries_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
};

}  // namespace millrace::io
