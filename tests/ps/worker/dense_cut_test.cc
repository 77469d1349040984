// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/dense_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "io/base/random.h"

namespace millrace::ps {
namespace {

const std::vector<size_t> kLenet = {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};
constexpr size_t kMax = 256 << 10;

std::vector<size_t> Loads(const std::vector<DensePiece>& pieces, size_t shards) {
  std::vector<size_t> loads(shards);
  for (const DensePiece& piece : pieces) loads[piece.shard] += piece.size;
  return loads;
}

TEST(DenseCut, OneShardHasEveryParameterInPiecesOfTheGreatestSize) {
  const std::vector<size_t> sizes = {10, 2 * kMax + 5};
  const std::vector<DensePiece> pieces = CutDense(sizes, 1, kMax);
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0].size, 10u);
  EXPECT_EQ(pieces[3].size, 5u);
  EXPECT_EQ(CutDense(kLenet, 1, kMax).size(), kLenet.size());
}

TEST(DenseCut, ShardsOfASmallNetAreEvenWithFewerCutsThanShards) {
  for (const size_t shards : {2, 3, 4, 8}) {
    const std::vector<DensePiece> pieces = CutDense(kLenet, shards, kMax);
    EXPECT_LT(pieces.size(), kLenet.size() + shards) << shards;
    const std::vector<size_t> loads = Loads(pieces, shards);
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    EXPECT_LE(static_cast<double>(*most), 1.1 * static_cast<double>(*least)) << shards;
  }
}

TEST(DenseCut, PiecesCoverEveryParameterOnceAndInOrder) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<size_t> sizes(random.Below(12));
    for (size_t& size : sizes) size = random.Below(3) == 0 ? random.Below(5) : random.Below(5000);
    const size_t shards = 1 + random.Below(6), max_piece = 1 + random.Below(2000);
    size_t param = 0, at = 0;
    for (const DensePiece& piece : CutDense(sizes, shards, max_piece)) {
      while (param < sizes.size() && at == sizes[param]) ++param, at = 0;
      ASSERT_LT(param, sizes.size());
      EXPECT_EQ(piece.param, param);
      EXPECT_EQ(piece.begin, at);
      EXPECT_GT(piece.size, 0u);
      EXPECT_LE(piece.size, max_piece);
      EXPECT_LT(piece.shard, shards);
      at += piece.size;
    }
    while (param < sizes.size() && at == sizes[param]) ++param, at = 0;
    EXPECT_EQ(param, sizes.size());
  }
}

}  // namespace
}  // namespace millrace::ps
