// SPDX-License-Identifier: Apache-2.0
#include "sparse/key_groups.h"

#include <charconv>

#include "io/state/state_fields.h"

namespace millrace::sparse {
namespace {

// Reads NUMBER:NUMBER:... items with a blank between two.
class ItemReader {
 public:
  explicit ItemReader(const std::string& text) : at_(text.data()), end_(at_ + text.size()) {}
  bool done() const { return at_ == end_; }
  // False if there is no number, or another character than `after` behind it (or the end).
  template <typename T>
  bool Next(T& number, char after) {
    const auto read = std::from_chars(at_, end_, number);
    if (read.ec != std::errc()) return false;
    at_ = read.ptr;
    if (at_ == end_) return after == ' ';
    return *at_++ == after && at_ != end_;
  }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace

Status KeyGroups::Validate() const {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].group > groups.size()) {
      return Invalid("key ranges: expected one of " + std::to_string(groups.size()) +
                     " groups, found " + std::to_string(ranges[i].group));
    }
    if (i > 0 && ranges[i].first < ranges[i - 1].first) {
      return Invalid("key ranges: expected ascending keys");
    }
  }
  return {};
}

std::string KeyGroups::GroupsText() const {
  std::string text;
  for (const KeyGroup& g : groups) {
    text += (text.empty() ? "" : " ") + io::NumberText(g.rate) + ":" + io::NumberText(g.l1) + ":" +
            io::NumberText(g.l2);
  }
  return text;
}

std::string KeyGroups::RangesText() const {
  std::string text;
  for (const KeyRange& range : ranges) {
    text +=
        (text.empty() ? "" : " ") + std::to_string(range.first) + ":" + std::to_string(range.group);
  }
  return text;
}

Result<KeyGroups> KeyGroupsFrom(const std::string& groups, const std::string& ranges) {
  KeyGroups made;
  for (ItemReader reader(groups); !reader.done();) {
    KeyGroup& g = made.groups.emplace_back();
    if (!reader.Next(g.rate, ':') || !reader.Next(g.l1, ':') || !reader.Next(g.l2, ' ')) {
      return Corrupt("key groups: expected rate:l1:l2, found '" + groups.substr(0, 100) + "'");
    }
  }
  for (ItemReader reader(ranges); !reader.done();) {
    KeyRange& range = made.ranges.emplace_back();
    if (!reader.Next(range.first, ':') || !reader.Next(range.group, ' ')) {
      return Corrupt("key ranges: expected first:group, found '" + ranges.substr(0, 100) + "'");
    }
  }
  RETURN_IF_ERROR(made.Validate());
  return made;
}

}  // namespace millrace::sparse
