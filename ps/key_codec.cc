#include "ps/key_codec.h"

#include <cstring>
#include <optional>

#include "io/base/random.h"
#include "io/example/varint_list.h"

namespace millrace::ps {
namespace {

using io::Status;

constexpr size_t kMaxVarintBytes = 10;

char* PutVarint(char* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<char>(value | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

// The number of keys at the beginning; removes it.
std::optional<uint64_t> TakeCount(std::string_view& bytes) {
  uint64_t count = 0;
  for (size_t i = 0; i < bytes.size() && i < 5; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    count |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return count;
    }
  }
  return std::nullopt;
}

Status CountError(uint64_t expected, size_t found) {
  return io::Corrupt("key list: expected " + std::to_string(expected) + " keys, found " +
                     std::to_string(found));
}

}  // namespace

void EncodeKeys(std::span<const uint64_t> keys, std::string& out) {
  out.resize((keys.size() + 1) * kMaxVarintBytes);
  char* at = PutVarint(out.data(), keys.size());
  uint64_t last = 0;
  for (const uint64_t key : keys) {
    at = PutVarint(at, key - last);
    last = key;
  }
  out.resize(static_cast<size_t>(at - out.data()));
}

Status KeyDecoder::Decode(std::string_view bytes, uint64_t limit, io::PodVector<uint64_t>& keys) {
  const std::optional<uint64_t> count = TakeCount(bytes);
  if (!count) return io::Corrupt("key list: expected a count, found none");
  if (*count > bytes.size()) return CountError(*count, bytes.size());
  padded_.Resize(bytes.size() + io::kVarintReadSlack);
  if (!bytes.empty()) std::memcpy(padded_.data(), bytes.data(), bytes.size());
  std::memset(padded_.data() + bytes.size(), 0, io::kVarintReadSlack);
  const std::string_view list(padded_.data(), bytes.size());
  narrow_.resize(list.size() + io::kVarintWriteSlack);
  keys.resize(list.size());
  static const io::Varints32Function decode32 = io::DecodeVarints32For(io::DetectCpuLevel());
  if (const auto narrow = decode32(list, narrow_.data())) {
    if (narrow->count != *count) return CountError(*count, narrow->count);
    for (size_t i = 0; i < narrow->count; ++i) keys[i] = narrow_[i];
  } else {
    const std::optional<size_t> wide = io::DecodeVarints64(list, keys.data());
    if (!wide) return io::Corrupt("key list: expected varints, found a cut or too long one");
    if (*wide != *count) return CountError(*count, *wide);
  }
  keys.resize(*count);
  bool ascending = true;
  uint64_t key = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t next = key + keys[i];
    ascending &= i == 0 || next > key;  // false for a difference of 0 and for an overflow
    keys[i] = key = next;
  }
  if (!ascending) return io::Corrupt("key list: expected ascending keys");
  if (limit > 0 && !keys.empty() && keys.back() >= limit) {
    return io::Corrupt("key list: expected keys below " + std::to_string(limit) + ", found " +
                       std::to_string(keys.back()));
  }
  return {};
}

uint64_t ListSignature(std::string_view bytes) {
  uint64_t hash = io::Mix64(bytes.size() + 1);
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  return io::Mix64(hash ^ tail) | 1;
}

}  // namespace millrace::ps
