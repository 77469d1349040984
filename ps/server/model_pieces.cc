#include "ps/server/model_pieces.h"

#include <algorithm>
#include <span>

namespace millrace::ps {
namespace {

constexpr int64_t kEntriesPerPiece = 64 << 10;

}  // namespace

int64_t ModelPieces::Read(const sparse::LocalStore& store, int64_t first, std::string& out) {
  if (first == 0 || entries_.empty()) {  // the latter on a new connection, in the middle
    entries_.clear();
    store.ForEach([&](uint64_t key, std::span<const float> slot) {
      if (slot[0] != 0) entries_.push_back({.key = key, .weight = slot[0]});
    });
  }
  const auto size = static_cast<int64_t>(entries_.size());
  const int64_t begin = std::clamp<int64_t>(first, 0, size);
  const int64_t end = std::min(begin + kEntriesPerPiece, size);
  EncodeEntries(
      std::span(entries_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
      out);
  if (end < size) return end;
  entries_ = EntryList();
  return -1;
}

}  // namespace millrace::ps
