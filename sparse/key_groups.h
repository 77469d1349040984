// SPDX-License-Identifier: Apache-2.0
// Groups of keys whose weights are trained with numbers of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"

namespace millrace::sparse {

struct KeyGroup {
  double rate = 1;  // a factor of the run's rate
  double l1 = 0;    // instead of those of the run
  double l2 = 0;

  bool operator==(const KeyGroup&) const = default;
};

// Keys from `first` on, up to the next range, belong to `group`: 0 has the numbers of the run, 1 is
// groups[0]. Keys below all ranges belong to group 0.
struct KeyRange {
  uint64_t first = 0;
  uint64_t group = 0;
};

struct KeyGroups {
  std::vector<KeyGroup> groups = {};
  std::vector<KeyRange> ranges = {};  // by key, ascending or equal: the last one of a key counts

  bool empty() const { return ranges.empty(); }
  Status Validate() const;
  // "rate:l1:l2 ..." and "first:group ...".
  std::string GroupsText() const;
  std::string RangesText() const;
};
Result<KeyGroups> KeyGroupsFrom(const std::string& groups, const std::string& ranges);

// The groups of keys that are asked for one after the other: fastest if they ascend.
class GroupCursor {
 public:
  explicit GroupCursor(std::span<const KeyRange> ranges) : ranges_(ranges) {}
  size_t Of(uint64_t key) {
    if (next_ > 0 && key < ranges_[next_ - 1].first) next_ = 0;
    while (next_ < ranges_.size() && ranges_[next_].first <= key) ++next_;
    return next_ == 0 ? 0 : static_cast<size_t>(ranges_[next_ - 1].group);
  }

 private:
  std::span<const KeyRange> ranges_;
  size_t next_ = 0;
};

}  // namespace millrace::sparse
