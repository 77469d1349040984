// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a net go: which part of which parameter to which shard.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::ps {

// `size` numbers of a parameter, from the one at `begin` on.
struct DensePiece {
  size_t param = 0;
  size_t begin = 0;
  size_t size = 0;
  size_t shard = 0;
};

// Parameters of these sizes in pieces of at most `max_piece` numbers, in the order of parameters,
// so that shards differ by a twentieth of what each should have. It depends on nothing but the
// arguments: all workers of a job, and those that resume it, cut the same way. In addition to the
// cuts that `max_piece` asks for there are fewer cuts than shards.
std::vector<DensePiece> CutDense(std::span<const size_t> sizes, size_t shards, size_t max_piece);

}  // namespace millrace::ps
