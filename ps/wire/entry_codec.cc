// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/entry_codec.h"

#include <cstring>

namespace millrace::ps {
namespace {

void AppendFloats(std::span<const float> floats, std::string& out) {
  out.append(reinterpret_cast<const char*>(floats.data()), floats.size_bytes());
}

}  // namespace

void EncodeEntries(std::span<const Entry> entries, std::string& out,
                   std::span<const float> factors) {
  const size_t width = entries.empty() ? 0 : factors.size() / entries.size();
  uint64_t last = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    uint64_t value = entries[i].key - last;
    last = entries[i].key;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
    AppendFloats({&entries[i].weight, 1}, out);
    if (width == 0) continue;
    const std::span<const float> mine = factors.subspan(i * width, width);
    const bool has_factors = std::any_of(mine.begin(), mine.end(), [](float v) { return v != 0; });
    out += has_factors ? '\1' : '\0';
    if (has_factors) AppendFloats(mine, out);
  }
}

Status DecodeEntries(std::string_view bytes, EntryList& entries, size_t width,
                     std::vector<float>& factors) {
  entries.clear();
  factors.clear();
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
    if (width == 0) continue;
    if (at == bytes.size()) return Corrupt("entries: cut inside an entry");
    const char has_factors = bytes[at++];
    factors.resize(entries.size() * width);
    if (has_factors == 0) continue;
    if (has_factors != 1) return Corrupt("entries: expected 0 or 1 before the factors");
    if ((bytes.size() - at) / sizeof(float) < width) {
      return Corrupt("entries: cut inside an entry");
    }
    std::memcpy(&factors[factors.size() - width], bytes.data() + at, width * sizeof(float));
    at += width * sizeof(float);
  }
  return {};
}

Status DecodeEntries(std::string_view bytes, EntryList& entries) {
  std::vector<float> none;
  return DecodeEntries(bytes, entries, 0, none);
}

}  // namespace millrace::ps
