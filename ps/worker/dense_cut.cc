// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/dense_cut.h"

#include <algorithm>
#include <tuple>

namespace millrace::ps {
namespace {

constexpr size_t kSlackPart = 20;  // of what a shard should have, for all shards together

std::vector<DensePiece> WholePieces(std::span<const size_t> sizes, size_t max_piece) {
  std::vector<DensePiece> pieces;
  for (size_t p = 0; p < sizes.size(); ++p) {
    for (size_t at = 0; at < sizes[p]; at += max_piece) {
      pieces.push_back({.param = p, .begin = at, .size = std::min(max_piece, sizes[p] - at)});
    }
  }
  return pieces;
}

}  // namespace

// The largest first, each to the shard that has least; what is too much for that one is cut off.
std::vector<DensePiece> CutDense(std::span<const size_t> sizes, size_t shards, size_t max_piece) {
  std::vector<DensePiece> by_size = WholePieces(sizes, max_piece), pieces;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const DensePiece& a, const DensePiece& b) { return a.size > b.size; });
  size_t total = 0;
  for (const size_t size : sizes) total += size;
  const size_t goal = (total + shards - 1) / shards;
  const size_t slack = shards > 1 ? goal / kSlackPart / (shards - 1) : 0;
  std::vector<size_t> loads(shards);
  for (DensePiece rest : by_size) {
    while (rest.size > 0) {
      const auto least = std::min_element(loads.begin(), loads.end());
      const size_t room = goal - std::min(goal, *least);
      DensePiece piece = rest;
      piece.shard = static_cast<size_t>(least - loads.begin());
      if (room > 0 && rest.size > room + slack) piece.size = room;
      *least += piece.size;
      rest.begin += piece.size;
      rest.size -= piece.size;
      pieces.push_back(piece);
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const DensePiece& a, const DensePiece& b) {
    return std::tie(a.param, a.begin) < std::tie(b.param, b.begin);
  });
  return pieces;
}

}  // namespace millrace::ps
