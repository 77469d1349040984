// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/entry_codec.h"

#include <cstring>

namespace millrace::ps {

void EncodeEntries(std::span<const Entry> entries, std::string& out) {
  uint64_t last = 0;
  for (const Entry& entry : entries) {
    uint64_t value = entry.key - last;
    last = entry.key;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
    char weight[4];
    std::memcpy(weight, &entry.weight, 4);
    out.append(weight, 4);
  }
}

Status DecodeEntries(std::string_view bytes, EntryList& entries) {
  entries.clear();
  uint64_t key = 0;
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t value = 0;
    size_t shift = 0;
    bool ended = false;
    for (; at < bytes.size() && shift < 70 && !ended; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      ended = byte < 0x80;
    }
    if (!ended || bytes.size() - at < 4) return Corrupt("entries: cut inside an entry");
    const uint64_t next = key + value;
    if (!entries.empty() && next <= key) return Corrupt("entries: expected ascending keys");
    key = next;
    Entry entry{.key = key};
    std::memcpy(&entry.weight, bytes.data() + at, 4);
    at += 4;
    entries.push_back(entry);
  }
  return {};
}

}  // namespace millrace::ps
