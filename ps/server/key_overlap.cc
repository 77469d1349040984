#include "ps/server/key_overlap.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace millrace::ps {
namespace {

// A stretch of both lists that is walked through by itself; `place` is the next one of its result.
struct Stretch {
  size_t left, left_end;
  size_t right, right_end;
  size_t place;

  // That can be made without a look at the ends.
  size_t steps() const { return std::min(left_end - left, right_end - right); }
};

struct Walk {
  const uint64_t* left;
  const uint64_t* right;
  uint32_t* left_places;
  uint32_t* right_places;

  // Without branches on the keys: which of them is smaller is as good as random.
  void Step(Stretch& s) const {
    const uint64_t a = left[s.left], b = right[s.right];
    left_places[s.place] = static_cast<uint32_t>(s.left);
    right_places[s.place] = static_cast<uint32_t>(s.right);
    s.place += a == b;
    s.left += a <= b;
    s.right += b <= a;
  }
};

// Each step waits for the one before it; those of several stretches do not wait for each other.
// Two take 1.3 times as long as four, six or eight 1.4 (registers run out).
using Stretches = std::array<Stretch, 4>;

// Even parts of `left`, and of `right` what can be in them. A step writes a place before it knows
// whether it counts: each has room for one more than it can find.
Stretches Cut(std::span<const uint64_t> left, std::span<const uint64_t> right) {
  Stretches cut;
  size_t begin = 0, right_begin = 0;
  for (size_t s = 0; s < cut.size(); ++s) {
    const size_t end = left.size() * (s + 1) / cut.size();
    const auto bound =
        end == left.size() ? right.end() : std::lower_bound(right.begin(), right.end(), left[end]);
    const auto right_end = static_cast<size_t>(bound - right.begin());
    cut[s] = {begin, end, right_begin, right_end, begin + s};
    begin = end;
    right_begin = right_end;
  }
  return cut;
}

}  // namespace

void KeyOverlap::Find(std::span<const uint64_t> left, std::span<const uint64_t> right) {
  Stretches stretches = Cut(left, right);
  std::array<size_t, stretches.size()> begin;
  for (size_t s = 0; s < stretches.size(); ++s) begin[s] = stretches[s].place;
  left_places_.resize(left.size() + stretches.size());
  right_places_.resize(left.size() + stretches.size());
  const Walk walk = {left.data(), right.data(), left_places_.data(), right_places_.data()};
  const auto rounds = [&] {
    size_t fewest = left.size();
    for (const Stretch& s : stretches) fewest = std::min(fewest, s.steps());
    return fewest;
  };
  for (size_t steps; (steps = rounds()) > 0;) {
    for (; steps > 0; --steps) {
      for (Stretch& s : stretches) walk.Step(s);
    }
  }
  size_t found = 0;
  for (size_t s = 0; s < stretches.size(); ++s) {
    while (stretches[s].steps() > 0) walk.Step(stretches[s]);
    const size_t count = stretches[s].place - begin[s];
    std::copy_n(left_places_.data() + begin[s], count, left_places_.data() + found);
    std::copy_n(right_places_.data() + begin[s], count, right_places_.data() + found);
    found += count;
  }
  left_places_.resize(found);
  right_places_.resize(found);
}

}  // namespace millrace::ps
