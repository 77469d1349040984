// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format, read from memory without copying: tags, varints, length-delimited
// fields, unknown fields.
//
//   message = (tag value)*          tag = varint(number << 3 | wire type), number >= 1
//   value   = varint | 8 bytes | length bytes | group until its end tag | 4 bytes
//
// Accepts and rejects exactly what libprotobuf's parser does, over-long encodings included.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace::io {

enum class WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // length-delimited: strings, messages, packed lists
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr uint32_t WireTag(uint32_t number, WireType type) {
  return number << 3 | static_cast<uint32_t>(type);
}
constexpr uint32_t FieldNumber(uint32_t tag) { return tag >> 3; }
constexpr WireType WireTypeOf(uint32_t tag) { return static_cast<WireType>(tag & 7); }

// The nesting limit of messages and groups, libprotobuf's default.
constexpr int kMaxWireDepth = 100;

// Reads forward from `p`, never at or past `end`. Each Read returns false at invalid bytes; `p`
// then stays at the start of the invalid item, `expected` describes what was expected there, and
// the reader must not be used again.
struct WireReader {
  const char* p = nullptr;
  const char* end = nullptr;
  int depth = kMaxWireDepth;  // levels that may still be opened
  const char* expected = nullptr;

  WireReader() = default;
  explicit WireReader(std::string_view bytes, int levels = kMaxWireDepth)
      : p(bytes.data()), end(bytes.data() + bytes.size()), depth(levels) {}

  bool AtEnd() const { return p == end; }
  size_t left() const { return static_cast<size_t>(end - p); }

  bool ReadVarint(uint64_t& value) {
    if (p != end && static_cast<uint8_t>(*p) < 0x80) {
      value = static_cast<uint8_t>(*p++);
      return true;
    }
    return ReadLongVarint(value);
  }

  bool ReadTag(uint32_t& tag) {
    if (p != end && static_cast<uint8_t>(*p) < 0x80) {
      tag = static_cast<uint8_t>(*p);
      return TagIsValid(tag) ? (++p, true) : Fail(kTagText);
    }
    return ReadLongTag(tag);
  }

  // A length and that many bytes.
  bool ReadBytes(std::string_view& bytes) {
    if (p == end || static_cast<uint8_t>(*p) >= 0x80) return ReadLongBytes(bytes);
    const size_t size = static_cast<uint8_t>(*p);
    if (size >= left()) return Fail(kLengthText);
    bytes = {p + 1, size};
    p += 1 + size;
    return true;
  }

  bool ReadFixed32(uint32_t& value) {
    if (left() < 4) return Fail("4 bytes of a fixed32");
    std::memcpy(&value, p, 4);
    p += 4;
    return true;
  }

  // A message inside this one: `inner` reads its bytes, one level deeper.
  bool ReadMessage(WireReader& inner) {
    if (depth <= 0) return Fail(kDepthText);
    std::string_view bytes;
    if (!ReadBytes(bytes)) return false;
    inner = WireReader(bytes, depth - 1);
    return true;
  }

  // Skips the value that follows `tag`.
  bool SkipValue(uint32_t tag) {
    uint64_t varint;
    std::string_view bytes;
    switch (WireTypeOf(tag)) {
      case WireType::kVarint:
        return ReadVarint(varint);
      case WireType::kFixed64:
        return SkipFixed(8);
      case WireType::kBytes:
        return ReadBytes(bytes);
      case WireType::kStartGroup:
        return SkipGroup(FieldNumber(tag));
      case WireType::kEndGroup:
        return Fail("no end of a group that was never begun");
      case WireType::kFixed32:
        return SkipFixed(4);
    }
    return Fail(kTagText);
  }

  bool Fail(const char* what) {
    expected = what;
    return false;
  }

 private:
  static constexpr const char* kTagText =
      "a tag of at most 5 bytes with a field number from 1 and a wire type from 0 to 5";
  static constexpr const char* kLengthText = "a length that ends within the message";
  static constexpr const char* kDepthText = "messages and groups at most 100 deep";

  static bool TagIsValid(uint32_t tag) { return FieldNumber(tag) != 0 && (tag & 7) <= 5; }

  bool ReadLongVarint(uint64_t& value) {
    const size_t most = std::min<size_t>(left(), 10);
    uint64_t sum = 0;
    for (size_t i = 0; i < most; ++i) {
      const uint64_t byte = static_cast<uint8_t>(p[i]);
      sum |= (byte & 0x7f) << (7 * i);  // what exceeds 64 bits is dropped
      if (byte < 0x80) {
        p += i + 1;
        value = sum;
        return true;
      }
    }
    return Fail("a varint of at most 10 bytes");
  }

  // Bits beyond 32 are dropped.
  bool ReadLongTag(uint32_t& tag) {
    const char* const start = p;
    uint64_t wide = 0;
    if (!ReadLongVarint(wide) || p - start > 5 || !TagIsValid(static_cast<uint32_t>(wide))) {
      p = start;
      return Fail(kTagText);
    }
    tag = static_cast<uint32_t>(wide);
    return true;
  }

  bool ReadLongBytes(std::string_view& bytes) {
    const char* const start = p;
    uint64_t size = 0;
    if (!ReadLongVarint(size) || p - start > 5 || size > left()) {
      p = start;
      return Fail(kLengthText);
    }
    bytes = {p, static_cast<size_t>(size)};
    p += size;
    return true;
  }

  bool SkipFixed(size_t size) {
    if (left() < size) return Fail(size == 8 ? "8 bytes of a fixed64" : "4 bytes of a fixed32");
    p += size;
    return true;
  }

  bool SkipGroup(uint32_t number) {
    if (depth <= 0) return Fail(kDepthText);
    --depth;
    for (;;) {
      const char* const start = p;
      uint32_t tag;
      if (!ReadTag(tag)) return false;
      if (WireTypeOf(tag) == WireType::kEndGroup) {
        ++depth;
        if (FieldNumber(tag) == number) return true;
        p = start;
        return Fail("the end of the group that was begun last");
      }
      if (!SkipValue(tag)) return false;
    }
  }
};

}  // namespace millrace::io
