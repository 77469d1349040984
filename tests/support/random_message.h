// SPDX-License-Identifier: Apache-2.0
// Random bytes that are, or nearly are, a tf.Example or tf.SequenceExample: every form that the
// wire format allows, and now and then one that it does not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/random.h"

namespace millrace::test {

class RandomMessage {
 public:
  explicit RandomMessage(uint64_t seed) : random_(seed) {}

  // A SequenceExample; without its field 2 it is an Example.
  std::string Make() {
    std::string out;
    for (uint64_t n = random_.Below(4); n > 0; --n) {
      if (Once(3)) {
        AppendField(out, 2, Repeat(3, [&] { return Field(1, Entry(/*list=*/true)); }));
      } else {
        AppendField(out, 1, Repeat(5, [&] { return Field(1, Entry(/*list=*/false)); }));
      }
      MaybeUnknown(out);
    }
    return out;
  }

  // Corrupts `bytes`: flips, cuts, splices, doubled or inserted pieces.
  void Mutate(std::string& bytes) {
    for (uint64_t n = 1 + random_.Below(3); n > 0; --n) MutateOnce(bytes);
  }

 private:
  bool Once(uint64_t in) { return random_.Below(in) == 0; }
  size_t At(const std::string& bytes) { return random_.Below(bytes.size() + 1); }

  template <typename MakeOne>
  std::string Repeat(uint64_t below, MakeOne make) {
    std::string out;
    for (uint64_t n = random_.Below(below); n > 0; --n) {
      out += make();
      MaybeUnknown(out);
    }
    return out;
  }

  // Sometimes with superfluous bytes, up to more than is allowed.
  void AppendVarint(std::string& out, uint64_t value) {
    uint64_t padding = Once(40) ? random_.Below(11) : 0;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    if (padding == 0) {
      out += static_cast<char>(value);
      return;
    }
    out += static_cast<char>(value | 0x80);
    while (--padding > 0) out += '\x80';
    out += Once(4) ? static_cast<char>(random_.Below(128)) : '\0';
  }

  void AppendField(std::string& out, uint32_t number, std::string_view value) {
    AppendVarint(out, number << 3 | 2);
    AppendVarint(out, value.size());
    out += value;
  }
  std::string Field(uint32_t number, std::string_view value) {
    std::string out;
    AppendField(out, number, value);
    return out;
  }

  std::string Name() {
    static constexpr std::string_view kNames[] = {
        "label", "index", "value", "", "a", "b", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    std::string name(kNames[random_.Below(std::size(kNames))]);
    if (Once(30)) name += static_cast<char>(random_.Next());
    return name;
  }

  // Name and value in any order, one or both missing or repeated.
  std::string Entry(bool list) {
    const auto value = [&] {
      return list ? Field(2, Repeat(4, [&] { return Field(1, Feature()); })) : Field(2, Feature());
    };
    if (!Once(6)) return Field(1, Name()) + value();
    return Repeat(5, [&] { return Once(2) ? Field(1, Name()) : value(); });
  }

  std::string Feature() {
    if (!Once(6)) return List(1 + random_.Below(3));
    return Repeat(4, [&] { return List(1 + random_.Below(3)); });
  }

  std::string List(uint64_t kind) {
    const auto value = [&] {
      if (kind == 1) return Field(1, std::string(random_.Below(4), 'x'));
      return kind == 2 ? Floats() : Int64s();
    };
    return Field(static_cast<uint32_t>(kind), Repeat(4, value));
  }

  std::string Floats() {
    std::string bytes(4 * random_.Below(6) + (Once(60) ? 1 : 0), '\0');
    for (char& c : bytes) c = static_cast<char>(random_.Next());
    if (!Once(3) || bytes.size() < 4) return Field(1, bytes);
    return "\x0d" + bytes.substr(0, 4);
  }

  std::string Int64s() {
    std::string bytes;
    if (Once(3)) {
      bytes = "\x08";
      AppendVarint(bytes, random_.Next());
      return bytes;
    }
    for (uint64_t n = random_.Below(6); n > 0; --n)
      AppendVarint(bytes, random_.Next() >> random_.Below(64));
    return Field(1, bytes);
  }

  void MaybeUnknown(std::string& out) {
    if (Once(12)) AppendUnknown(out, 5);
  }

  void AppendUnknown(std::string& out, int depth) {
    const auto number =
        static_cast<uint32_t>(Once(20) ? random_.Below(1 << 30) : random_.Below(20));
    const auto type = static_cast<uint32_t>(random_.Below(Once(10) ? 8 : 6));
    if (type == 3 && Once(8)) return AppendDeepGroup(out, number);
    AppendVarint(out, uint64_t{number} << 3 | type);
    if (type == 0) AppendVarint(out, random_.Next() >> random_.Below(64));
    if (type == 1) out += "12345678";
    if (type == 2) AppendVarint(out, 3), out += "xyz";
    if (type == 5) out += "1234";
    if (type != 3) return;
    for (uint64_t n = random_.Below(3); n > 0 && depth > 0; --n) AppendUnknown(out, depth - 1);
    AppendVarint(out, uint64_t{number} << 3 | 4);
  }

  // Near the bound of 100 levels.
  void AppendDeepGroup(std::string& out, uint32_t number) {
    const uint64_t levels = 93 + random_.Below(10);
    for (uint64_t i = 0; i < levels; ++i) AppendVarint(out, uint64_t{number} << 3 | 3);
    for (uint64_t i = 0; i < levels; ++i) AppendVarint(out, uint64_t{number} << 3 | 4);
  }

  void MutateOnce(std::string& bytes) {
    const size_t at = At(bytes);
    const size_t from = At(bytes);
    const size_t length = random_.Below(12);
    switch (random_.Below(7)) {
      case 0:
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_.Below(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(at, bytes.substr(from, length));
        break;
      case 5:
        AppendUnknown(bytes, 3);
        break;
      case 6:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_.Next());
        break;
    }
  }

  Random random_;
};

}  // namespace millrace::test
