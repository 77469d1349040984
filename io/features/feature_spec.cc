// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "io/base/json.h"
#include "io/features/log_bucket.h"

namespace millrace::io {
namespace {

constexpr int kMaxNarrowBits = 40;  // a dense-index table of 2^40 floats is beyond any machine
constexpr uint64_t kMaxLogParts = 64;
constexpr uint64_t kMaxQuantiles = 1000;
constexpr double kMaxPenalty = 1e6;
constexpr double kMinRate = 1e-6, kMaxRate = 1e6;
constexpr size_t kMaxGroups = 254;  // a byte of a 64-bit key, which is not that of the intercept
constexpr int kGroupShift = 56;

Status FieldError(const FieldSpec& field, const std::string& what) {
  return Invalid("field '" + field.name + "': " + what);
}

const FieldSpec* FindField(const std::vector<FieldSpec>& fields, std::string_view name) {
  for (const FieldSpec& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Status CheckCross(const FeatureSpec& spec, const FieldSpec& cross) {
  if (cross.of.size() < 2) return FieldError(cross, "of: expected two or more fields");
  for (const std::string& part : cross.of) {
    const FieldSpec* field = FindField(spec.fields, part);
    if (!field) return FieldError(cross, "of: there is no field '" + part + "'");
    if (field->rule == FieldRule::kCross) {
      return FieldError(cross, "of: expected fields that are not crosses, found '" + part +
                                   "' (a cross may name any number of fields)");
    }
  }
  if (std::set<std::string>(cross.of.begin(), cross.of.end()).size() < cross.of.size()) {
    return FieldError(cross, "of: expected different fields");
  }
  return {};
}

Status CheckBuckets(const FieldSpec& field) {
  for (size_t i = 0; i < field.boundaries.size(); ++i) {
    if (!std::isfinite(field.boundaries[i]) ||
        (i > 0 && field.boundaries[i] <= field.boundaries[i - 1])) {
      return FieldError(field, "boundaries: expected ascending numbers");
    }
  }
  if (field.bucket == BucketKind::kBoundaries && field.boundaries.empty()) {
    return FieldError(field, "expected boundaries, log2 or quantiles");
  }
  if (field.bucket == BucketKind::kLog2 &&
      (field.parts > kMaxLogParts || !std::has_single_bit(field.parts))) {
    return FieldError(field, "log2: expected 1, 2, 4, ... 64 buckets per power of two, found " +
                                 std::to_string(field.parts));
  }
  if (field.bucket == BucketKind::kQuantiles && (field.parts < 2 || field.parts > kMaxQuantiles)) {
    return FieldError(field, "quantiles: expected 2 to " + std::to_string(kMaxQuantiles) +
                                 " buckets, found " + std::to_string(field.parts));
  }
  return {};
}

Status CheckUpdate(const FieldSpec& field) {
  const auto check = [&](const char* name, double value, double low, double high) -> Status {
    if (value >= low && value <= high) return {};
    char text[120];
    std::snprintf(text, sizeof text, "%s: expected a number from %g to %g, found %g", name, low,
                  high, value);
    return FieldError(field, text);
  };
  const FieldUpdate& update = field.update;
  RETURN_IF_ERROR(check("l1", update.l1.value_or(0), 0, kMaxPenalty));
  RETURN_IF_ERROR(check("l2", update.l2.value_or(0), 0, kMaxPenalty));
  RETURN_IF_ERROR(check("rate", update.rate, kMinRate, kMaxRate));
  if (field.keys || update == FieldUpdate()) return {};
  return FieldError(field, "expected no l1, l2 and rate of a field without keys");
}

Status CheckField(const FeatureSpec& spec, const FieldSpec& field) {
  if (field.name.empty()) return Invalid("a field has no name");
  RETURN_IF_ERROR(CheckUpdate(field));
  if (field.name == kAnyField) return FieldError(field, "expected another name: * stands for all");
  if (field.rule == FieldRule::kCross) return CheckCross(spec, field);
  if (field.column.empty()) return FieldError(field, "expected the name of a column");
  if (field.missing_key && field.default_value) {
    return FieldError(field, "expected one of missing and default");
  }
  if (field.default_value && field.default_value->empty()) {
    return FieldError(field, "default: expected a value (an empty text is a missing value)");
  }
  if (field.rule == FieldRule::kBucket) RETURN_IF_ERROR(CheckBuckets(field));
  if (field.center && (!std::isfinite(*field.center) || !std::isfinite(*field.factor))) {
    return FieldError(field, "expected a finite center and factor");
  }
  return {};
}

// Ranks are 0, 1, ... without gaps over all vocabularies.
Status CheckRanks(const FeatureSpec& spec) {
  std::vector<uint64_t> ranks;
  for (const FieldSpec& field : spec.fields) {
    for (const auto& [value, rank] : field.values) ranks.push_back(rank);
    if (field.unseen_rank) ranks.push_back(*field.unseen_rank);
    if (!field.values.empty() && !field.unseen_rank) {
      return FieldError(field, "values: expected the rank of unseen values as well");
    }
  }
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == i) continue;
    return Invalid(
        "ranks of vocabularies: expected each of 0 to " + std::to_string(ranks.size() - 1) +
        " once, found " + std::to_string(ranks[i]) +
        (i > 0 && ranks[i - 1] == ranks[i] ? " twice" : " instead of " + std::to_string(i)));
  }
  return {};
}

bool IsHashed(const FieldSpec& field) {
  return field.rule == FieldRule::kHash || field.rule == FieldRule::kCross;
}

// The different updates of fields that have one of their own, in the order of their first fields.
std::vector<FieldUpdate> UpdatesOf(const std::vector<FieldSpec>& fields) {
  std::vector<FieldUpdate> updates;
  for (const FieldSpec& field : fields) {
    if (field.update == FieldUpdate()) continue;
    if (std::find(updates.begin(), updates.end(), field.update) == updates.end()) {
      updates.push_back(field.update);
    }
  }
  return updates;
}

// 0 for a field without an update of its own, else 1 + the position of its update.
size_t GroupIn(const std::vector<FieldUpdate>& updates, const FieldUpdate& update) {
  if (update == FieldUpdate()) return 0;
  return 1 +
         static_cast<size_t>(std::find(updates.begin(), updates.end(), update) - updates.begin());
}

// Appends a range unless the keys before it have the same group.
void AddRange(uint64_t first_key, size_t group, std::vector<FieldGroups::Range>& ranges) {
  if ((ranges.empty() ? 0 : ranges.back().group) != group) ranges.push_back({first_key, group});
}

uint64_t KeysOf(const FieldSpec& field) {
  if (!field.keys) return 0;
  const uint64_t missing = field.missing_key ? 1 : 0;
  if (field.rule == FieldRule::kNumber) return 1 + missing;
  if (field.rule == FieldRule::kBucket) return BucketCount(field) + missing;
  return 0;
}

}  // namespace

uint64_t BucketCount(const FieldSpec& field) {
  if (field.bucket != BucketKind::kLog2) return field.boundaries.size() + 1;
  return SignedLogBuckets(static_cast<uint32_t>(field.parts));
}

Status FeatureSpec::Validate() const {
  if ((hash_bits < 1 || hash_bits > kMaxNarrowBits) && hash_bits != 64) {
    return Invalid("hash_bits: expected 1 to " + std::to_string(kMaxNarrowBits) +
                   ", or 64 for exact keys, found " + std::to_string(hash_bits));
  }
  if (label.column.empty()) return Invalid("label: expected the name of a column");
  if (!label.positive.empty() && label.threshold) {
    return Invalid("label: expected one of positive and threshold");
  }
  if (fields.empty()) return Invalid("fields: expected at least one field");
  std::set<std::string> names;
  for (const FieldSpec& field : fields) {
    if (!names.insert(field.name).second) return FieldError(field, "a second field of that name");
    RETURN_IF_ERROR(CheckField(*this, field));
    if (field.rule != FieldRule::kCross && field.column == label.column) {
      return FieldError(field, "its column '" + field.column + "' is the label");
    }
  }
  if (std::set<std::string>(csv_columns.begin(), csv_columns.end()).size() < csv_columns.size()) {
    return Invalid("csv_columns: expected different names");
  }
  if (UpdatesOf(fields).size() > kMaxGroups) {
    return Invalid("fields: expected at most " + std::to_string(kMaxGroups) +
                   " different l1, l2 and rate");
  }
  return CheckRanks(*this);
}

std::vector<std::string> FeatureSpec::Columns() const {
  std::vector<std::string> columns = {label.column};
  const auto add = [&](const std::string& column) {
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
      columns.push_back(column);
    }
  };
  if (!weight_column.empty()) add(weight_column);
  for (const FieldSpec& field : fields) {
    if (field.rule != FieldRule::kCross) add(field.column);
  }
  return columns;
}

bool FeatureSpec::IsFitted() const {
  return std::none_of(fields.begin(), fields.end(), [](const FieldSpec& field) {
    switch (field.rule) {
      case FieldRule::kVocabulary:
        return !field.unseen_rank;
      case FieldRule::kBucket:
        return field.bucket == BucketKind::kQuantiles && field.boundaries.empty();
      case FieldRule::kNumber:
        return field.scale != NumberScale::kNone && !field.factor;
      default:
        return false;
    }
  });
}

uint64_t FeatureSpec::num_features() const {
  if (hash_bits == 64) return 0;
  uint64_t ranks = 0;
  for (const FieldSpec& field : fields) ranks += field.values.size() + (field.unseen_rank ? 1 : 0);
  return FirstKeys().back() + ranks;
}

std::vector<uint64_t> FeatureSpec::FirstKeys() const {
  const std::vector<size_t> groups = FieldGroupNumbers();
  std::vector<uint64_t> first(fields.size() + 1);
  if (hash_bits == 64) {
    for (size_t i = 0; i < fields.size(); ++i) first[i] = uint64_t{groups[i]} << kGroupShift;
    return first;
  }
  std::map<size_t, uint64_t> first_of_group;  // of hashed keys
  uint64_t key = 0;
  const auto add_hashes = [&](bool plain) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!IsHashed(fields[i]) || (groups[i] == 0) != plain) continue;
      const bool is_new = first_of_group.emplace(groups[i], key).second;
      if (is_new) key += uint64_t{1} << hash_bits;
    }
  };
  add_hashes(/*plain=*/true);
  add_hashes(/*plain=*/false);
  for (size_t i = 0; i < fields.size(); ++i) {
    first[i] = IsHashed(fields[i]) ? first_of_group[groups[i]] : key;
    key += KeysOf(fields[i]);
  }
  first.back() = key;
  return first;
}

std::vector<size_t> FeatureSpec::FieldGroupNumbers() const {
  const std::vector<FieldUpdate> updates = UpdatesOf(fields);
  std::vector<size_t> numbers;
  for (const FieldSpec& field : fields) numbers.push_back(GroupIn(updates, field.update));
  return numbers;
}

FieldGroups FeatureSpec::Groups() const {
  FieldGroups all = {.updates = UpdatesOf(fields)};
  if (all.updates.empty()) return all;
  if (hash_bits == 64) {
    for (size_t g = 1; g <= all.updates.size(); ++g) {
      AddRange(uint64_t{g} << kGroupShift, g, all.ranges);
    }
    return all;
  }
  const std::vector<size_t> numbers = FieldGroupNumbers();
  const std::vector<uint64_t> first = FirstKeys();
  std::map<uint64_t, size_t> starts;  // of parts of the key space: their groups
  for (size_t i = 0; i < fields.size(); ++i) {
    const FieldSpec& field = fields[i];
    if (IsHashed(field) || KeysOf(field) > 0) starts[first[i]] = numbers[i];
    for (const auto& [value, rank] : field.values) starts[first.back() + rank] = numbers[i];
    if (field.unseen_rank) starts[first.back() + *field.unseen_rank] = numbers[i];
  }
  for (const auto& [key, group] : starts) AddRange(key, group, all.ranges);
  return all;
}

namespace {

constexpr std::pair<FieldRule, const char*> kRuleNames[] = {{FieldRule::kHash, "hash"},
                                                            {FieldRule::kVocabulary, "vocabulary"},
                                                            {FieldRule::kBucket, "bucket"},
                                                            {FieldRule::kNumber, "number"},
                                                            {FieldRule::kCross, "cross"}};
constexpr std::pair<NumberScale, const char*> kScaleNames[] = {{NumberScale::kNone, "none"},
                                                               {NumberScale::kStandard, "standard"},
                                                               {NumberScale::kMaxAbs, "max_abs"}};

template <typename T>
void Strings(JsonWriter& json, const char* key, const T& texts) {
  json.Key(key);
  json.BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray();
}

void StringMember(JsonWriter& json, const char* key, std::string_view text) {
  json.Key(key);
  json.String(text);
}

void WriteVocabulary(JsonWriter& json, const FieldSpec& field) {
  json.Key("min_count");
  json.Uint(field.min_count);
  if (!field.unseen_rank) return;
  json.Key("unseen");
  json.Uint(*field.unseen_rank);
  json.Key("values");
  json.BeginObject();
  for (const auto& [value, rank] : field.values) {
    json.Key(value);
    json.Uint(rank);
  }
  json.EndObject();
}

void WriteBuckets(JsonWriter& json, const FieldSpec& field) {
  if (field.bucket != BucketKind::kBoundaries) {
    json.Key(field.bucket == BucketKind::kLog2 ? "log2" : "quantiles");
    json.Uint(field.parts);
  }
  if (field.boundaries.empty()) return;
  json.Key("boundaries");
  json.BeginArray();
  for (const double boundary : field.boundaries) json.Double(boundary);
  json.EndArray();
}

void WriteRule(JsonWriter& json, const FieldSpec& field) {
  switch (field.rule) {
    case FieldRule::kVocabulary:
      return WriteVocabulary(json, field);
    case FieldRule::kBucket:
      return WriteBuckets(json, field);
    case FieldRule::kNumber:
      if (field.scale != NumberScale::kNone) StringMember(json, "scale", ScaleName(field.scale));
      if (!field.factor) return;
      json.Key("center");
      json.Double(*field.center);
      json.Key("factor");
      json.Double(*field.factor);
      return;
    case FieldRule::kCross:
      return Strings(json, "of", field.of);
    case FieldRule::kHash:
      return;
  }
}

std::string FieldJson(const FieldSpec& field) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  StringMember(json, "name", field.name);
  StringMember(json, "rule", RuleName(field.rule));
  if (field.rule != FieldRule::kCross && field.column != field.name) {
    StringMember(json, "column", field.column);
  }
  WriteRule(json, field);
  if (!field.separator.empty()) StringMember(json, "separator", field.separator);
  if (field.missing_key) StringMember(json, "missing", "key");
  if (field.default_value) StringMember(json, "default", *field.default_value);
  if (!field.keys) {
    json.Key("keys");
    json.Json("false");
  }
  const auto number = [&](const char* key, double value) {
    json.Key(key);
    json.Double(value);
  };
  if (field.update.l1) number("l1", *field.update.l1);
  if (field.update.l2) number("l2", *field.update.l2);
  if (field.update.rate != 1) number("rate", field.update.rate);
  json.EndObject();
  return text;
}

std::string LabelJson(const LabelSpec& label) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  StringMember(json, "column", label.column);
  if (!label.positive.empty()) Strings(json, "positive", label.positive);
  if (label.threshold) {
    json.Key("threshold");
    json.Double(*label.threshold);
  }
  json.EndObject();
  return text;
}

std::string SpecJson(const FeatureSpec& spec, const char* line, const char* field_line) {
  std::string text;
  JsonWriter quoted(text);
  text += std::string("{") + line + "\"label\": " + LabelJson(spec.label);
  if (!spec.weight_column.empty()) {
    text += std::string(",") + line + "\"weight\": ";
    quoted.String(spec.weight_column);
  }
  text += std::string(",") + line + "\"hash_bits\": " + std::to_string(spec.hash_bits);
  if (!spec.csv_columns.empty()) {
    text += std::string(",") + line + "\"csv_columns\": ";
    JsonWriter list(text);
    list.BeginArray();
    for (const std::string& column : spec.csv_columns) list.String(column);
    list.EndArray();
  }
  text += std::string(",") + line + "\"fields\": [";
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    text += std::string(i == 0 ? "" : ",") + field_line + FieldJson(spec.fields[i]);
  }
  return text + (*line ? "\n  ]\n}\n" : "]}");
}

}  // namespace

const char* RuleName(FieldRule rule) {
  return std::find_if(std::begin(kRuleNames), std::end(kRuleNames),
                      [&](const auto& entry) { return entry.first == rule; })
      ->second;
}
const char* ScaleName(NumberScale scale) {
  return std::find_if(std::begin(kScaleNames), std::end(kScaleNames),
                      [&](const auto& entry) { return entry.first == scale; })
      ->second;
}
std::optional<FieldRule> RuleFromName(std::string_view name) {
  for (const auto& [rule, text] : kRuleNames) {
    if (name == text) return rule;
  }
  return std::nullopt;
}
std::optional<NumberScale> ScaleFromName(std::string_view name) {
  for (const auto& [scale, text] : kScaleNames) {
    if (name == text) return scale;
  }
  return std::nullopt;
}

std::string FeatureSpec::ToJson() const { return SpecJson(*this, "", ""); }
std::string FeatureSpec::ToPrettyJson() const { return SpecJson(*this, "\n  ", "\n    "); }

namespace {

std::string Cut(const std::string& text) {
  constexpr size_t kMost = 100;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// The begin of the member, or for a long list of the element, in which two objects first differ.
size_t DifferenceBegin(const std::string& a, const std::string& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto at = static_cast<size_t>(in_a - a.begin());
  if (a[at] == '}' || b[at] == '}') return at;  // one has more members
  constexpr size_t kNear = 40;
  const size_t member = a.rfind(",\"", at);
  if (member != a.npos && at - member <= kNear) return member + 1;
  const size_t element = a.rfind(',', at);
  return element == a.npos ? 0 : element + 1;
}

}  // namespace

Status CheckExtends(const FeatureSpec& spec, const FeatureSpec& earlier) {
  FeatureSpec common = spec;
  for (size_t i = 0; i < std::min(spec.fields.size(), earlier.fields.size()); ++i) {
    std::erase_if(common.fields[i].values, [&](const auto& entry) {
      return !earlier.fields[i].values.contains(entry.first);
    });
  }
  const std::string difference = DifferenceOf(common, earlier);
  if (difference.empty()) return {};
  return Invalid("the feature spec makes other keys than the earlier one: " + difference);
}

std::string DifferenceOf(const FeatureSpec& ours, const FeatureSpec& other) {
  const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
    return what + ": " + Cut(a) + " against " + Cut(b);
  };
  if (LabelJson(ours.label) != LabelJson(other.label)) {
    return differ("label", LabelJson(ours.label), LabelJson(other.label));
  }
  if (ours.weight_column != other.weight_column) {
    return differ("weight", "'" + ours.weight_column + "'", "'" + other.weight_column + "'");
  }
  if (ours.hash_bits != other.hash_bits) {
    return differ("hash_bits", std::to_string(ours.hash_bits), std::to_string(other.hash_bits));
  }
  for (size_t i = 0; i < std::max(ours.fields.size(), other.fields.size()); ++i) {
    if (i >= ours.fields.size()) return "field '" + other.fields[i].name + "' is new";
    if (i >= other.fields.size()) return "field '" + ours.fields[i].name + "' is missing";
    const FieldSpec &a = ours.fields[i], &b = other.fields[i];
    if (a.values != b.values && a.name == b.name) {
      return differ("field '" + a.name + "'",
                    "a vocabulary of " + std::to_string(a.values.size()) + " values",
                    "another one of " + std::to_string(b.values.size()));
    }
    const std::string place = "field " + std::to_string(i + 1);
    if (a.name != b.name) return differ(place, "'" + a.name + "'", "'" + b.name + "'");
    const std::string left = FieldJson(a), right = FieldJson(b);
    if (left == right) continue;
    const size_t begin = DifferenceBegin(left, right);
    const auto rest = [&](const std::string& json) -> std::string {
      if (json[begin] == '}') return "nothing";
      return json.substr(begin + (json[begin] == ',' ? 1 : 0));
    };
    return differ("field '" + a.name + "'", rest(left), rest(right));
  }
  return "";
}

}  // namespace millrace::io
