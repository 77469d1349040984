// SPDX-License-Identifier: Apache-2.0
#include "io/example/feature_view.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "io/base/utf8.h"
#include "io/example/feature_arena.h"
#include "io/example/wire.h"

namespace millrace::io {
namespace {

static_assert(std::endian::native == std::endian::little);

// Field 1 of every message here; field 2 is a map entry's value or a SequenceExample's lists.
constexpr uint32_t kFirst = WireTag(1, WireType::kBytes);
constexpr uint32_t kSecond = WireTag(2, WireType::kBytes);

std::string HexBytes(const char* p, const char* end) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr ptrdiff_t kMost = 10;
  std::string hex;
  for (const char* q = p; q < end && q < p + kMost; ++q) {
    hex += kDigits[static_cast<uint8_t>(*q) >> 4];
    hex += kDigits[*q & 15];
    hex += ' ';
  }
  return hex + (end - p > kMost ? "..." : "and the end");
}

using internal::FeatureArena;
using internal::FeaturePiece;
using internal::ListPiece;

// Each Parse function takes a reader that spans exactly its message.
class FeatureParser {
 public:
  FeatureParser(std::string_view record, FeatureArena& arena) : record_(record), arena_(arena) {}

  Status Parse(bool sequence) {
    if (ParseTop(WireReader(record_), sequence)) return {};
    return Corrupt("byte " + std::to_string(fault_.p - record_.data()) +
                   " of the record: expected " + fault_.expected + ", found " +
                   HexBytes(fault_.p, fault_.end));
  }

 private:
  bool ParseTop(WireReader r, bool sequence);
  bool ParseFeatureEntry(WireReader r);
  bool ParseListEntry(WireReader r);
  bool ParseFeatureList(WireReader r);
  bool ParseFeature(WireReader r, FeaturePiece& piece);
  bool ParseList(WireReader r, FeaturePiece& piece);
  bool ParseBytesValue(WireReader& r, uint32_t tag);
  bool ParseFloatValue(WireReader& r, uint32_t tag);
  bool ParseInt64Value(WireReader& r, uint32_t tag);
  bool AppendPackedFloats(WireReader& r);
  bool AppendPackedInt64s(WireReader& r);

  // Calls on_field(reader, tag), which reads the value, for each field.
  template <typename OnField>
  bool EachField(WireReader r, OnField on_field) {
    uint32_t tag;
    while (!r.AtEnd()) {
      if (!r.ReadTag(tag)) return Fault(r);
      if (!on_field(r, tag)) return false;
    }
    return true;
  }

  // A message whose field 1, and nothing else, is a message: (this->*parse)(reader) for each.
  bool EachFirst(WireReader r, bool (FeatureParser::*parse)(WireReader)) {
    return EachField(r, [&](WireReader& field, uint32_t tag) {
      return tag == kFirst ? Inner(field, parse) : SkipUnknown(field, tag);
    });
  }

  // A map entry: 1: name, 2: a message for on_value(reader).
  template <typename OnValue>
  bool ParseEntry(WireReader r, std::string_view& name, OnValue on_value) {
    return EachField(r, [&](WireReader& field, uint32_t tag) {
      if (tag == kFirst) return ReadName(field, name);
      if (tag != kSecond) return SkipUnknown(field, tag);
      WireReader inner;
      return field.ReadMessage(inner) ? on_value(inner) : Fault(field);
    });
  }

  bool Inner(WireReader& r, bool (FeatureParser::*parse)(WireReader)) {
    WireReader inner;
    return r.ReadMessage(inner) ? (this->*parse)(inner) : Fault(r);
  }

  bool ParseFeatures(WireReader r) { return EachFirst(r, &FeatureParser::ParseFeatureEntry); }
  bool ParseFeatureLists(WireReader r) { return EachFirst(r, &FeatureParser::ParseListEntry); }

  bool ReadName(WireReader& r, std::string_view& name);
  bool SkipUnknown(WireReader& r, uint32_t tag);
  void Begin(FeaturePiece& piece, FeatureKind kind);
  size_t ValuesOf(FeatureKind kind) const;
  void Truncate(const FeaturePiece& piece);

  // Notes where and why; every caller up to Parse then returns false.
  bool Fault(const WireReader& r) {
    fault_ = r;
    return false;
  }

  std::string_view record_;
  FeatureArena& arena_;
  WireReader fault_;
  size_t pieces_limit_ = 1024;
  size_t lists_limit_ = 1024;
};

bool FeatureParser::ParseTop(WireReader r, bool sequence) {
  return EachField(r, [&](WireReader& field, uint32_t tag) {
    if (tag == kFirst) return Inner(field, &FeatureParser::ParseFeatures);
    if (tag != kSecond || !sequence) return SkipUnknown(field, tag);
    arena_.has_feature_lists = true;
    return Inner(field, &FeatureParser::ParseFeatureLists);
  });
}

bool FeatureParser::ParseFeatureEntry(WireReader r) {
  FeaturePiece piece;
  if (!ParseEntry(r, piece.name, [&](WireReader v) { return ParseFeature(v, piece); }))
    return false;
  arena_.pieces.push_back(piece);
  internal::KeepLastIfMany(arena_.pieces, pieces_limit_);
  return true;
}

bool FeatureParser::ParseListEntry(WireReader r) {
  ListPiece list{.name = {}, .begin = arena_.step_pieces.size()};
  if (!ParseEntry(r, list.name, [&](WireReader v) { return ParseFeatureList(v); })) return false;
  list.end = arena_.step_pieces.size();
  arena_.list_pieces.push_back(list);
  internal::KeepLastIfMany(arena_.list_pieces, lists_limit_);
  return true;
}

bool FeatureParser::ParseFeatureList(WireReader r) {
  return EachField(r, [&](WireReader& field, uint32_t tag) {
    if (tag != kFirst) return SkipUnknown(field, tag);
    WireReader inner;
    if (!field.ReadMessage(inner)) return Fault(field);
    return ParseFeature(inner, arena_.step_pieces.emplace_back());
  });
}

// A piece that is parsed into twice is merged: nothing else can have been appended to the arrays in
// between.
bool FeatureParser::ParseFeature(WireReader r, FeaturePiece& piece) {
  return EachField(r, [&](WireReader& field, uint32_t tag) {
    if (WireTypeOf(tag) != WireType::kBytes || FieldNumber(tag) > 3) return SkipUnknown(field, tag);
    Begin(piece, static_cast<FeatureKind>(FieldNumber(tag)));
    WireReader inner;
    return field.ReadMessage(inner) ? ParseList(inner, piece) : Fault(field);
  });
}

bool FeatureParser::ParseList(WireReader r, FeaturePiece& piece) {
  const bool good = EachField(r, [&](WireReader& field, uint32_t tag) {
    if (piece.kind == FeatureKind::kBytes) return ParseBytesValue(field, tag);
    if (piece.kind == FeatureKind::kFloat) return ParseFloatValue(field, tag);
    return ParseInt64Value(field, tag);
  });
  piece.end = ValuesOf(piece.kind);
  return good;
}

bool FeatureParser::ParseBytesValue(WireReader& r, uint32_t tag) {
  if (tag != kFirst) return SkipUnknown(r, tag);
  std::string_view value;
  if (!r.ReadBytes(value)) return Fault(r);
  arena_.bytes.push_back(value);
  return true;
}

bool FeatureParser::ParseFloatValue(WireReader& r, uint32_t tag) {
  if (tag == kFirst) return AppendPackedFloats(r);
  if (tag != WireTag(1, WireType::kFixed32)) return SkipUnknown(r, tag);
  uint32_t bits = 0;
  if (!r.ReadFixed32(bits)) return Fault(r);
  arena_.floats.push_back(std::bit_cast<float>(bits));
  return true;
}

bool FeatureParser::AppendPackedFloats(WireReader& r) {
  const char* const start = r.p;
  std::string_view packed;
  if (!r.ReadBytes(packed)) return Fault(r);
  if (packed.size() % sizeof(float) != 0) {
    r.p = start;
    r.Fail("packed floats, 4 bytes each");
    return Fault(r);
  }
  const size_t old = arena_.floats.size();
  arena_.floats.resize(old + packed.size() / sizeof(float));
  if (!packed.empty()) std::memcpy(&arena_.floats[old], packed.data(), packed.size());
  return true;
}

bool FeatureParser::ParseInt64Value(WireReader& r, uint32_t tag) {
  if (tag == kFirst) return AppendPackedInt64s(r);
  if (tag != WireTag(1, WireType::kVarint)) return SkipUnknown(r, tag);
  uint64_t value = 0;
  if (!r.ReadVarint(value)) return Fault(r);
  arena_.ints.push_back(static_cast<int64_t>(value));
  return true;
}

bool FeatureParser::AppendPackedInt64s(WireReader& r) {
  std::string_view packed;
  if (!r.ReadBytes(packed)) return Fault(r);
  WireReader values(packed);
  uint64_t value = 0;
  while (!values.AtEnd()) {
    if (!values.ReadVarint(value)) return Fault(values);
    arena_.ints.push_back(static_cast<int64_t>(value));
  }
  return true;
}

bool FeatureParser::ReadName(WireReader& r, std::string_view& name) {
  const char* const start = r.p;
  if (!r.ReadBytes(name)) return Fault(r);
  if (IsUtf8(name)) return true;
  r.p = start;
  r.Fail("a name in UTF-8");
  return Fault(r);
}

bool FeatureParser::SkipUnknown(WireReader& r, uint32_t tag) {
  ++arena_.unknown_fields;
  return r.SkipValue(tag) || Fault(r);
}

// The list of a Feature is a oneof: another kind replaces the earlier list, the same kind extends
// it.
void FeatureParser::Begin(FeaturePiece& piece, FeatureKind kind) {
  if (piece.kind == kind) return;
  Truncate(piece);
  piece.kind = kind;
  piece.begin = piece.end = ValuesOf(kind);
}

void FeatureParser::Truncate(const FeaturePiece& piece) {
  if (piece.kind == FeatureKind::kBytes) arena_.bytes.resize(piece.begin);
  if (piece.kind == FeatureKind::kFloat) arena_.floats.resize(piece.begin);
  if (piece.kind == FeatureKind::kInt64) arena_.ints.resize(piece.begin);
}

size_t FeatureParser::ValuesOf(FeatureKind kind) const {
  if (kind == FeatureKind::kBytes) return arena_.bytes.size();
  if (kind == FeatureKind::kFloat) return arena_.floats.size();
  return arena_.ints.size();
}

template <typename T>
const T* FindByName(const std::vector<T>& sorted, std::string_view name) {
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), name,
                                   [](const T& a, std::string_view b) { return a.name < b; });
  return it != sorted.end() && it->name == name ? &*it : nullptr;
}

}  // namespace

const char* FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kNone:
      return "none";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt64:
      return "int64";
  }
  return "unknown";
}

std::string DescribeFeature(const FeatureView& feature) {
  if (feature.kind == FeatureKind::kNone) return "a feature without values";
  return std::to_string(feature.size()) + " " + FeatureKindName(feature.kind) +
         (feature.size() == 1 ? " value" : " values");
}

std::string ListFeatures(const ExampleView& view) {
  constexpr size_t kShown = 10;
  const std::vector<FeatureView>& features = view.features();
  if (features.empty()) return "no features";
  std::string text;
  for (size_t i = 0; i < std::min(features.size(), kShown); ++i) {
    text += i > 0 ? ", '" : "'";
    text.append(features[i].name).append("' (").append(DescribeFeature(features[i])).append(")");
  }
  if (features.size() <= kShown) return text;
  return text + " and " + std::to_string(features.size() - kShown) + " more";
}

ExampleView::ExampleView() : arena_(std::make_unique<FeatureArena>()) {}
ExampleView::~ExampleView() = default;
ExampleView::ExampleView(ExampleView&&) noexcept = default;
ExampleView& ExampleView::operator=(ExampleView&&) noexcept = default;

const std::vector<FeatureView>& ExampleView::features() const { return arena_->features; }
const std::vector<FeatureListView>& ExampleView::feature_lists() const {
  return arena_->feature_lists;
}
const FeatureView* ExampleView::Find(std::string_view name) const {
  return FindByName(arena_->features, name);
}
const FeatureListView* ExampleView::FindList(std::string_view name) const {
  return FindByName(arena_->feature_lists, name);
}
uint64_t ExampleView::unknown_fields() const { return arena_->unknown_fields; }
bool ExampleView::has_feature_lists() const { return arena_->has_feature_lists; }

Status ExampleView::Parse(std::string_view record, bool sequence) {
  arena_->Clear();
  Status status = FeatureParser(record, *arena_).Parse(sequence);
  if (status.ok()) {
    arena_->Publish();
  } else {
    arena_->Clear();
  }
  return status;
}

Status ParseExample(std::string_view record, ExampleView& view) {
  return view.Parse(record, /*sequence=*/false);
}
Status ParseSequenceExample(std::string_view record, ExampleView& view) {
  return view.Parse(record, /*sequence=*/true);
}

RecordKind DetectRecordKind(std::string_view record, ExampleView& view) {
  // Without field 2 the two messages have the same bytes.
  if (!ParseSequenceExample(record, view).ok() || view.unknown_fields() > 0) {
    return RecordKind::kOther;
  }
  return view.has_feature_lists() ? RecordKind::kSequenceExample : RecordKind::kExample;
}

}  // namespace millrace::io
