// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "io/base/random.h"
#include "io/base/string_hash.h"
#include "io/features/field_value.h"
#include "io/features/log_bucket.h"

namespace millrace::io {
namespace {

constexpr std::string_view kUnseenText("\0", 1);
constexpr std::string_view kNumberText = "number";

size_t ColumnNumber(const std::vector<std::string>& columns, const std::string& name) {
  return static_cast<size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
}

uint32_t BucketOf(const FieldSpec& field, double number) {
  if (field.bucket == BucketKind::kLog2) {
    return SignedLogBucket(number, static_cast<uint32_t>(field.parts));
  }
  const auto above = std::upper_bound(field.boundaries.begin(), field.boundaries.end(), number);
  return static_cast<uint32_t>(above - field.boundaries.begin());
}

std::string RangeName(const FieldSpec& field, uint64_t bucket) {
  const auto text = [](double number) {
    FieldValue value;
    value.number = number;
    value.kind = FieldValue::Kind::kDouble;
    ValueText room;
    return std::string(TextOf(value, room));
  };
  if (field.bucket == BucketKind::kLog2) {
    const auto parts = static_cast<uint32_t>(field.parts);
    const bool negative = bucket >= LogBuckets(parts);
    const uint64_t number = negative ? bucket - LogBuckets(parts) + 1 : bucket;
    // The bucket's first magnitude: the inverse of LogBucket.
    const auto shift = number < parts ? 0 : number / parts - 1;
    const uint64_t first = number < parts ? number : (parts + number % parts) << shift;
    const uint64_t last = first + ((uint64_t{1} << shift) - 1);
    const std::string sign = negative ? "-" : "";
    if (first == last) return sign + std::to_string(first);
    return negative ? "-" + std::to_string(last) + "..-" + std::to_string(first)
                    : std::to_string(first) + ".." + std::to_string(last);
  }
  const std::string low = bucket == 0 ? "" : text(field.boundaries[bucket - 1]);
  const std::string high = bucket == field.boundaries.size() ? "" : text(field.boundaries[bucket]);
  if (low.empty()) return "below " + high;
  return high.empty() ? "from " + low : low + " to " + high;
}

}  // namespace

void RankTable::Reserve(size_t tokens) {
  slots_.assign(std::bit_ceil(2 * tokens + 1), {});
  mask_ = slots_.size() - 1;
}

bool RankTable::Insert(uint64_t token, uint64_t rank) {
  size_t at = token & mask_;
  for (; slots_[at].rank != kNone; at = (at + 1) & mask_) {
    if (slots_[at].token == token) return false;
  }
  slots_[at] = {token, rank};
  return true;
}

Result<std::shared_ptr<const EncoderPlan>> EncoderPlan::Make(const FeatureSpec& spec) {
  CHECK(spec.IsFitted());
  auto plan = std::make_shared<EncoderPlan>();
  plan->spec_ = spec;
  plan->columns_ = spec.Columns();
  if (!spec.weight_column.empty()) {
    plan->weight_column_ = ColumnNumber(plan->columns_, spec.weight_column);
  }
  plan->mask_ = MaskKey(~uint64_t{0}, spec.hash_bits);
  const std::vector<uint64_t> first_keys = spec.FirstKeys();
  if (spec.hash_bits == 64 && !spec.Groups().updates.empty()) plan->mask_ >>= 8;
  size_t values = 0;
  for (const FieldSpec& field : spec.fields) values += field.values.size();
  plan->ranks_.Reserve(values);
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    const FieldSpec& field = spec.fields[i];
    Field& made = plan->fields_.emplace_back();
    made.rule = field.rule;
    made.keys = field.keys;
    made.seed = HashString(field.name);
    for (size_t size = 0; size < made.start.size(); ++size) {
      made.start[size] = HashStart(size, made.seed);
    }
    made.missing_token = HashString("", made.seed);
    made.unseen_token = HashString(kUnseenText, made.seed);
    const bool has_ranks = field.rule == FieldRule::kVocabulary && spec.hash_bits != 64;
    made.first_key = has_ranks ? first_keys.back() : first_keys[i];
    if (field.rule == FieldRule::kCross) {
      for (const std::string& part : field.of) {
        const auto found = std::find_if(spec.fields.begin(), spec.fields.end(),
                                        [&](const FieldSpec& f) { return f.name == part; });
        made.parts.push_back(static_cast<size_t>(found - spec.fields.begin()));
      }
      made.seed = HashStart(8 * field.of.size(), made.seed);
      continue;
    }
    made.column = ColumnNumber(plan->columns_, field.column);
    if (field.rule == FieldRule::kBucket) {
      for (uint64_t bucket = 0; bucket < BucketCount(field); ++bucket) {
        made.bucket_token.push_back(HashString(std::to_string(bucket), made.seed));
      }
    }
    if (field.rule == FieldRule::kVocabulary) {
      made.unseen_rank = *field.unseen_rank;
      for (const auto& [value, rank] : field.values) {
        if (plan->ranks_.Insert(HashString(value, made.seed), rank)) continue;
        return Invalid("field '" + field.name + "': the value '" + Printable(value) +
                       "' has the same hash as another one");
      }
    }
  }
  for (const Field& cross : plan->fields_) {
    for (const size_t part : cross.parts) plan->fields_[part].in_cross = true;
  }
  for (size_t i = 0; i < plan->fields_.size(); ++i) {
    Field& field = plan->fields_[i];
    field.simple = field.rule == FieldRule::kHash && field.keys && !field.in_cross &&
                   spec.fields[i].separator.empty();
  }
  return std::shared_ptr<const EncoderPlan>(std::move(plan));
}

FeatureEncoder::FeatureEncoder(std::shared_ptr<const EncoderPlan> plan, Labels labels, bool fields)
    : plan_(std::move(plan)),
      labels_(labels),
      want_fields_(fields),
      tokens_(plan_->fields_.size()),
      token_names_(plan_->fields_.size()) {}

Status FeatureEncoder::ReadLabel(const FieldRow& row, float& label) const {
  const LabelSpec& spec = plan_->spec_.label;
  const auto values = row.column(plan_->label_column_);
  const auto error = [&](const std::string& expected) {
    return Corrupt("label '" + spec.column + "': expected " + expected + ", found " +
                   (values.empty() ? "none" : DescribeValue(values[0])));
  };
  if (values.empty() && labels_ == Labels::kOptional) {
    label = kNoLabel;
    return {};
  }
  if (values.size() > 1) return Corrupt("label '" + spec.column + "': expected one value");
  if (!spec.positive.empty()) {
    if (values.empty()) return error("a value");
    ValueText room;
    const std::string_view text = TextOf(values[0], room);
    label = std::find(spec.positive.begin(), spec.positive.end(), text) != spec.positive.end();
    return {};
  }
  const std::optional<double> number = values.empty() ? std::nullopt : NumberOf(values[0]);
  if (spec.threshold) {
    if (!number) return error("a number");
    label = *number > *spec.threshold;
    return {};
  }
  if (!number || (*number != 0 && *number != 1 && *number != -1)) {
    return error("0, 1 or -1 (positive or threshold in the spec's label make two classes)");
  }
  label = *number == 1;
  return {};
}

Status FeatureEncoder::ReadWeight(const FieldRow& row, float& weight) const {
  weight = 1;
  if (plan_->weight_column_ == SIZE_MAX) return {};
  const auto values = row.column(plan_->weight_column_);
  if (values.empty()) return {};
  const std::optional<double> number = NumberOf(values[0]);
  if (values.size() > 1 || !number || *number < 0 || !std::isfinite(static_cast<float>(*number))) {
    return Corrupt("weight '" + plan_->spec_.weight_column +
                   "': expected one number from 0 on, found " + DescribeValue(values[0]));
  }
  weight = static_cast<float>(*number);
  return {};
}

inline void FeatureEncoder::AddKey(const EncoderPlan::Field& field, const Token& token) {
  uint64_t key = 0;
  if (plan_->spec_.hash_bits == 64) {
    key = (token.token & plan_->mask_) | field.first_key;
    // No row may have the key of the intercept.
    if (key == kInterceptKey) --key;
  } else if (field.rule == FieldRule::kHash || field.rule == FieldRule::kCross) {
    key = (token.token & plan_->mask_) + field.first_key;
  } else {
    key = field.first_key + token.offset;
  }
  keys_.push_back(key);
  values_.push_back(token.value);
  ones_ &= token.value == 1.0f;
}

std::string FeatureEncoder::NameOf(size_t i, const FieldValue* value, const Token& token) const {
  const FieldSpec& field = plan_->spec_.fields[i];
  if (!value) return field.name + "=missing";
  if (field.rule == FieldRule::kNumber) return field.name;
  if (field.rule == FieldRule::kBucket) return field.name + "=" + RangeName(field, token.offset);
  if (field.rule == FieldRule::kVocabulary && token.token == plan_->fields_[i].unseen_token) {
    return field.name + "=other";
  }
  ValueText room;
  return field.name + "=" + Printable(TextOf(*value, room));
}

void FeatureEncoder::AddMissing(size_t i) {
  const EncoderPlan::Field& field = plan_->fields_[i];
  Token token = {.token = field.missing_token};
  if (field.rule == FieldRule::kBucket) token.offset = field.bucket_token.size();
  if (field.rule == FieldRule::kNumber) token.offset = 1;
  if (field.rule == FieldRule::kVocabulary) {
    const uint64_t rank = plan_->ranks_.Find(field.missing_token);
    token.offset = rank == RankTable::kNone ? field.unseen_rank : rank;
    if (rank == RankTable::kNone) token.token = field.unseen_token;
  }
  tokens_[i].push_back(token);
  if (explain_) token_names_[i].push_back(NameOf(i, nullptr, token));
}

Status FeatureEncoder::AddValue(size_t i, const FieldValue& value) {
  const EncoderPlan::Field& field = plan_->fields_[i];
  const FieldSpec& spec = plan_->spec_.fields[i];
  Token token;
  if (field.rule == FieldRule::kHash || field.rule == FieldRule::kVocabulary) {
    ValueText room;
    if (value.kind >= FieldValue::Kind::kFloat && !std::isfinite(value.number)) {
      return Corrupt("column '" + spec.column + "': expected a finite number, found " +
                     DescribeValue(value));
    }
    token.token = HashString(TextOf(value, room), field.seed);
    if (field.rule == FieldRule::kVocabulary) {
      token.offset = plan_->ranks_.Find(token.token);
      if (token.offset == RankTable::kNone) token = {field.unseen_token, field.unseen_rank};
    }
    token.value = value.weight;
  } else {
    const std::optional<double> number = NumberOf(value);
    if (!number) {
      return Corrupt("column '" + spec.column + "': expected a finite number, found " +
                     DescribeValue(value));
    }
    if (field.rule == FieldRule::kBucket) {
      token.offset = BucketOf(spec, *number);
      token.token = field.bucket_token[token.offset];
      token.value = value.weight;
    } else {
      token.token = HashString(kNumberText, field.seed);
      token.value =
          value.weight *
          static_cast<float>(spec.factor ? (*number - *spec.center) * *spec.factor : *number);
      if (!std::isfinite(token.value)) {
        return Corrupt("column '" + spec.column + "': expected a number that fits a float, found " +
                       DescribeValue(value));
      }
    }
  }
  tokens_[i].push_back(token);
  if (explain_) token_names_[i].push_back(NameOf(i, &value, token));
  return {};
}

Status FeatureEncoder::EncodeField(size_t i, const FieldRow& row) {
  const EncoderPlan::Field& field = plan_->fields_[i];
  const FieldSpec& spec = plan_->spec_.fields[i];
  std::vector<Token>& tokens = tokens_[i];
  tokens.clear();
  if (explain_) token_names_[i].clear();
  for (const FieldValue& value : row.column(field.column)) {
    if (spec.separator.empty() || value.kind != FieldValue::Kind::kText) {
      RETURN_IF_ERROR(AddValue(i, value));
      continue;
    }
    RETURN_IF_ERROR(ForEachPart(value, spec.separator,
                                [&](const FieldValue& part) { return AddValue(i, part); }));
  }
  if (tokens.empty() && spec.default_value) {
    FieldValue value;
    value.text = spec.default_value->data();
    value.size = static_cast<uint32_t>(spec.default_value->size());
    value.kind = FieldValue::Kind::kText;
    value.weight = 1;
    RETURN_IF_ERROR(AddValue(i, value));
  }
  if (tokens.empty() && spec.missing_key) AddMissing(i);
  return {};
}

// All combinations of one token per part; the last part turns first.
Status FeatureEncoder::EncodeCross(size_t i) {
  const EncoderPlan::Field& cross = plan_->fields_[i];
  for (const size_t part : cross.parts) {
    if (tokens_[part].empty()) return {};
  }
  size_t keys = 1;
  for (const size_t part : cross.parts) {
    if (tokens_[part].size() > (kMaxCrossKeys - cross_keys_) / keys) return TooManyCrossKeys(i);
    keys *= tokens_[part].size();
  }
  if (keys > max_keys_ || keys_.size() > max_keys_ - keys) {
    return Corrupt("cross: expected a row of at most " + std::to_string(max_keys_) +
                   " keys, found more");
  }
  cross_keys_ += keys;
  turn_.assign(cross.parts.size(), 0);
  while (true) {
    Token made = {.token = cross.seed};
    std::string name;
    for (size_t p = 0; p < turn_.size(); ++p) {
      const Token& token = tokens_[cross.parts[p]][turn_[p]];
      made.token = HashStep(made.token, token.token);
      made.value *= token.value;
      if (explain_) {
        name += (p == 0 ? "" : " x ") + token_names_[cross.parts[p]][turn_[p]];
      }
    }
    AddKey(cross, made);
    if (explain_) entries_.push_back({i, keys_.back(), made.value, std::move(name)});
    size_t p = turn_.size();
    while (p > 0 && ++turn_[p - 1] == tokens_[cross.parts[p - 1]].size()) turn_[--p] = 0;
    if (p == 0) return {};
  }
}

Status FeatureEncoder::TooManyCrossKeys(size_t i) const {
  const FieldSpec& spec = plan_->spec_.fields[i];
  std::string found;
  for (size_t p = 0; p < spec.of.size(); ++p) {
    found += (p == 0 ? "" : " x ") + std::to_string(tokens_[plan_->fields_[i].parts[p]].size());
  }
  return Corrupt("cross '" + spec.name + "': expected at most " + std::to_string(kMaxCrossKeys) +
                 " keys of crosses in a row, found " + found + " combinations" +
                 (cross_keys_ == 0 ? "" : " after " + std::to_string(cross_keys_) + " keys"));
}

// The common case without tokens in between: hashes of texts and integers. False without effect if
// the field has no value or a float.
inline bool FeatureEncoder::EncodeSimple(const EncoderPlan::Field& field, const FieldRow& row) {
  const auto values = row.column(field.column);
  if (values.empty()) return false;
  const size_t before = keys_.size();
  for (const FieldValue& value : values) {
    if (value.kind >= FieldValue::Kind::kFloat) {
      keys_.resize(before);
      values_.resize(before);
      return false;
    }
    ValueText room;
    const std::string_view text = TextOf(value, room);
    const uint64_t start = text.size() < field.start.size() ? field.start[text.size()]
                                                            : HashStart(text.size(), field.seed);
    AddKey(field, {.token = HashFrom(start, text), .value = value.weight});
  }
  return true;
}

void FeatureEncoder::BeginKeys() {
  keys_.clear();
  values_.clear();
  fields_.clear();
  ones_ = true;
  cross_keys_ = 0;
}

Status FeatureEncoder::Encode(const FieldRow& row) {
  BeginKeys();
  for (size_t i = 0; i < plan_->fields_.size(); ++i) {
    if (plan_->fields_[i].in_cross) RETURN_IF_ERROR(EncodeField(i, row));
  }
  for (size_t i = 0; i < plan_->fields_.size(); ++i) {
    RETURN_IF_ERROR(EncodeKeys(i, row));
    NameFields(i);
  }
  // A product of numbers in a cross may be too large.
  if (ones_ ||
      std::all_of(values_.begin(), values_.end(), [](float v) { return std::isfinite(v); })) {
    return {};
  }
  return Corrupt("cross: expected a product of numbers that fits a float");
}

Status FeatureEncoder::EncodeKeys(size_t i, const FieldRow& row) {
  const EncoderPlan::Field& field = plan_->fields_[i];
  if (field.simple && !explain_ && EncodeSimple(field, row)) return {};
  if (field.rule == FieldRule::kCross) return EncodeCross(i);
  if (!field.in_cross) RETURN_IF_ERROR(EncodeField(i, row));
  if (!field.keys) return {};
  for (size_t t = 0; t < tokens_[i].size(); ++t) {
    AddKey(field, tokens_[i][t]);
    if (explain_) entries_.push_back({i, keys_.back(), tokens_[i][t].value, token_names_[i][t]});
  }
  return {};
}

Status FeatureEncoder::Append(const FieldRow& row, BatchBuilder& rows) {
  float label = 0, weight = 1;
  RETURN_IF_ERROR(ReadLabel(row, label));
  RETURN_IF_ERROR(ReadWeight(row, weight));
  RETURN_IF_ERROR(Encode(row));
  rows.AddRow(label, weight, keys_, ones_ ? nullptr : values_.data(),
              want_fields_ ? fields_.data() : nullptr);
  return {};
}

Result<std::vector<FeatureEncoder::Entry>> FeatureEncoder::Explain(const FieldRow& row) {
  explain_ = true;
  entries_.clear();
  const Status done = Encode(row);
  explain_ = false;
  RETURN_IF_ERROR(done);
  return std::move(entries_);
}

Result<std::vector<std::string>> FeatureEncoder::ValueNames(const FieldRow& row, size_t field) {
  explain_ = true;
  const Status done = EncodeField(field, row);
  explain_ = false;
  RETURN_IF_ERROR(done);
  return token_names_[field];
}

}  // namespace millrace::io
