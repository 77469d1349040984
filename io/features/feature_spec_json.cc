// SPDX-License-Identifier: Apache-2.0
// Reads the JSON form of a feature spec.
#include <simdjson.h>

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <numeric>
#include <set>
#include <sstream>

#include "io/base/printable.h"
#include "io/base/regular_file.h"
#include "io/features/feature_spec.h"

namespace millrace::io {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

// Reads the members of one JSON object, and in the end rejects those that nobody asked for.
class Members {
 public:
  Members(const object& members, std::string where) : object_(members), where_(std::move(where)) {}

  Status Error(const std::string& name, const std::string& expected) const {
    return Invalid(where_ + name + ": expected " + expected);
  }

  Result<std::optional<element>> Find(const char* name) {
    asked_.emplace_back(name);
    std::optional<element> found;
    for (const auto& [key, value] : object_) {
      if (key != asked_.back()) continue;
      if (found) return Invalid(where_ + name + " is given twice");
      found = value;
    }
    return found;
  }

  Status Text(const char* name, std::string& out) {
    ASSIGN_OR_RETURN(const std::optional<element> value, Find(name));
    if (!value) return {};
    std::string_view text;
    if (value->get(text) != simdjson::SUCCESS) return Error(name, "a text");
    out = text;
    return {};
  }
  Status Uint(const char* name, uint64_t& out) {
    ASSIGN_OR_RETURN(const std::optional<element> value, Find(name));
    if (!value) return {};
    if (value->get(out) != simdjson::SUCCESS) return Error(name, "a whole number from 0 on");
    return {};
  }
  Status Double(const char* name, std::optional<double>& out) {
    ASSIGN_OR_RETURN(const std::optional<element> value, Find(name));
    if (!value) return {};
    double number = 0;
    if (value->get(number) != simdjson::SUCCESS) return Error(name, "a number");
    out = number;
    return {};
  }
  Status Bool(const char* name, bool& out) {
    ASSIGN_OR_RETURN(const std::optional<element> value, Find(name));
    if (!value) return {};
    if (value->get(out) != simdjson::SUCCESS) return Error(name, "true or false");
    return {};
  }
  Status Texts(const char* name, std::vector<std::string>& out) {
    ASSIGN_OR_RETURN(const std::optional<element> value, Find(name));
    if (!value) return {};
    simdjson::dom::array list;
    if (value->get(list) != simdjson::SUCCESS) return Error(name, "a list of texts");
    for (const element item : list) {
      std::string_view text;
      if (item.get(text) != simdjson::SUCCESS) return Error(name, "a list of texts");
      out.emplace_back(text);
    }
    return {};
  }

  Status RejectOthers() const {
    for (const auto& [key, value] : object_) {
      if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
      std::string expected;
      for (const std::string& name : asked_) expected += (expected.empty() ? "" : ", ") + name;
      return Invalid(where_ + "unknown member '" + Printable(key) + "': expected " + expected);
    }
    return {};
  }

 private:
  object object_;
  std::string where_;
  std::vector<std::string> asked_;
};

Status ReadLabel(element value, LabelSpec& label) {
  std::string_view column;
  if (value.get(column) == simdjson::SUCCESS) {
    label.column = column;
    return {};
  }
  object members;
  if (value.get(members) != simdjson::SUCCESS) {
    return Invalid("label: expected the name of a column, or an object");
  }
  Members label_members(members, "label: ");
  RETURN_IF_ERROR(label_members.Text("column", label.column));
  RETURN_IF_ERROR(label_members.Texts("positive", label.positive));
  RETURN_IF_ERROR(label_members.Double("threshold", label.threshold));
  return label_members.RejectOthers();
}

Status ReadVocabulary(Members& members, FieldSpec& field) {
  RETURN_IF_ERROR(members.Uint("min_count", field.min_count));
  ASSIGN_OR_RETURN(const std::optional<element> unseen, members.Find("unseen"));
  if (unseen) {
    uint64_t rank = 0;
    if (unseen->get(rank) != simdjson::SUCCESS) return members.Error("unseen", "a rank");
    field.unseen_rank = rank;
  }
  ASSIGN_OR_RETURN(const std::optional<element> values, members.Find("values"));
  if (!values) return {};
  object ranks;
  if (values->get(ranks) != simdjson::SUCCESS) {
    return members.Error("values", "an object of values and their ranks");
  }
  for (const auto& [value, rank] : ranks) {
    uint64_t number = 0;
    if (rank.get(number) != simdjson::SUCCESS ||
        !field.values.emplace(std::string(value), number).second) {
      return members.Error("values",
                           "each value once, with its rank, found '" + Printable(value) + "'");
    }
  }
  return {};
}

Status ReadBuckets(Members& members, FieldSpec& field) {
  uint64_t log2 = 0, quantiles = 0;
  RETURN_IF_ERROR(members.Uint("log2", log2));
  RETURN_IF_ERROR(members.Uint("quantiles", quantiles));
  ASSIGN_OR_RETURN(const std::optional<element> boundaries, members.Find("boundaries"));
  if (log2 > 0 && (quantiles > 0 || boundaries)) {
    return members.Error("log2", "no quantiles and no boundaries beside it");
  }
  if (log2 > 0) field.bucket = BucketKind::kLog2;
  if (quantiles > 0) field.bucket = BucketKind::kQuantiles;
  if (log2 + quantiles > 0) field.parts = log2 + quantiles;
  if (!boundaries) return {};
  simdjson::dom::array list;
  if (boundaries->get(list) != simdjson::SUCCESS) {
    return members.Error("boundaries", "a list of numbers");
  }
  for (const element item : list) {
    double number = 0;
    if (item.get(number) != simdjson::SUCCESS) {
      return members.Error("boundaries", "a list of numbers");
    }
    field.boundaries.push_back(number);
  }
  return {};
}

Status ReadNumber(Members& members, FieldSpec& field) {
  std::string scale = ScaleName(NumberScale::kNone);
  RETURN_IF_ERROR(members.Text("scale", scale));
  const std::optional<NumberScale> known = ScaleFromName(scale);
  if (!known) return members.Error("scale", "none, standard or max_abs, found '" + scale + "'");
  field.scale = *known;
  RETURN_IF_ERROR(members.Double("center", field.center));
  RETURN_IF_ERROR(members.Double("factor", field.factor));
  if (field.center.has_value() == field.factor.has_value()) return {};
  return members.Error("center", "center and factor, or none of them");
}

bool HasWildcard(const FieldSpec& field) {
  return std::find(field.of.begin(), field.of.end(), kAnyField) != field.of.end();
}

// What a rule has beyond name and rule.
Status ReadRule(Members& members, FieldSpec& field) {
  switch (field.rule) {
    case FieldRule::kHash:
      return {};
    case FieldRule::kVocabulary:
      return ReadVocabulary(members, field);
    case FieldRule::kBucket:
      return ReadBuckets(members, field);
    case FieldRule::kNumber:
      return ReadNumber(members, field);
    case FieldRule::kCross:
      return members.Texts("of", field.of);
  }
  return {};
}

// The default of a missing value may be written as a number.
Status ReadDefault(Members& members, FieldSpec& field) {
  ASSIGN_OR_RETURN(const std::optional<element> value, members.Find("default"));
  if (!value) return {};
  std::string_view text;
  double number = 0;
  if (value->get(text) == simdjson::SUCCESS) {
    field.default_value = std::string(text);
  } else if (value->get(number) == simdjson::SUCCESS) {
    field.default_value = simdjson::to_string(*value);
  } else {
    return members.Error("default", "a text or a number");
  }
  return {};
}

Status ReadColumn(Members& members, FieldSpec& field) {
  if (field.rule == FieldRule::kCross) return {};
  field.column = field.name;
  RETURN_IF_ERROR(members.Text("column", field.column));
  RETURN_IF_ERROR(members.Text("separator", field.separator));
  std::string missing = "skip";
  RETURN_IF_ERROR(members.Text("missing", missing));
  if (missing != "skip" && missing != "key") {
    return members.Error("missing", "skip or key, found '" + missing + "'");
  }
  field.missing_key = missing == "key";
  RETURN_IF_ERROR(members.Bool("keys", field.keys));
  return ReadDefault(members, field);
}

Status ReadUpdate(Members& members, FieldSpec& field) {
  RETURN_IF_ERROR(members.Double("l1", field.update.l1));
  RETURN_IF_ERROR(members.Double("l2", field.update.l2));
  std::optional<double> rate;
  RETURN_IF_ERROR(members.Double("rate", rate));
  field.update.rate = rate.value_or(1);
  return {};
}

// A field as it is written: a cross may have wildcards.
struct WrittenField {
  FieldSpec field = {};
  std::vector<std::string> ignore = {};  // cross: fields that "*" does not stand for
};

Status ReadField(element value, size_t number, WrittenField& written) {
  FieldSpec& field = written.field;
  std::string where = "field " + std::to_string(number) + ": ";
  object json;
  if (value.get(json) != simdjson::SUCCESS) return Invalid(where + "expected an object");
  Members members(json, where);
  RETURN_IF_ERROR(members.Text("name", field.name));
  std::string rule = RuleName(field.rule);
  RETURN_IF_ERROR(members.Text("rule", rule));
  const std::optional<FieldRule> known = RuleFromName(rule);
  if (!known) {
    return members.Error(
        "rule", "hash, vocabulary, bucket, number or cross, found '" + Printable(rule) + "'");
  }
  field.rule = *known;
  RETURN_IF_ERROR(ReadColumn(members, field));
  RETURN_IF_ERROR(ReadRule(members, field));
  if (field.rule == FieldRule::kCross) {
    RETURN_IF_ERROR(members.Texts("ignore", written.ignore));
    if (!written.ignore.empty() && !HasWildcard(field)) {
      return members.Error("ignore", "a * in the member of beside it");
    }
  }
  RETURN_IF_ERROR(ReadUpdate(members, field));
  return members.RejectOthers();
}

// Makes the crosses that a cross with wildcards stands for.
class CrossExpander {
 public:
  explicit CrossExpander(const std::vector<WrittenField>& written) {
    for (const WrittenField& other : written) {
      const FieldSpec& field = other.field;
      if (field.rule != FieldRule::kCross) {
        names_.push_back(field.name);
      } else if (!HasWildcard(field)) {
        crossed_.insert(Sorted(field.of));
      }
    }
  }

  Status Expand(const WrittenField& written, std::vector<FieldSpec>& fields) {
    const FieldSpec& cross = written.field;
    const auto error = [&](const std::string& what) {
      return Invalid("field '" + Printable(cross.name) + "': " + what);
    };
    std::vector<std::string> others;
    for (const std::string& name : names_) {
      if (!IsIn(cross.of, name) && !IsIn(written.ignore, name)) others.push_back(name);
    }
    for (const std::string& name : written.ignore) {
      if (!IsIn(names_, name)) return error("ignore: there is no field '" + Printable(name) + "'");
    }
    const auto wildcards =
        static_cast<size_t>(std::count(cross.of.begin(), cross.of.end(), std::string(kAnyField)));
    if (others.size() < wildcards) {
      return error("of: expected at least " + std::to_string(wildcards) + " fields for *, found " +
                   std::to_string(others.size()));
    }
    // The next combination of fields: ascending positions in `others`.
    std::vector<size_t> at(wildcards);
    std::iota(at.begin(), at.end(), 0);
    while (true) {
      FieldSpec made = cross;
      size_t next = 0;
      for (std::string& part : made.of) {
        if (part == kAnyField) part = others[at[next++]];
      }
      made.name += ":";
      for (size_t i = 0; i < made.of.size(); ++i) made.name += (i == 0 ? " " : " x ") + made.of[i];
      if (crossed_.insert(Sorted(made.of)).second) fields.push_back(std::move(made));
      if (fields.size() > kMaxFields) {
        return error("of: expected at most " + std::to_string(kMaxFields) +
                     " fields and crosses in all: name fields to leave out in ignore");
      }
      size_t i = wildcards;
      while (i > 0 && at[i - 1] == others.size() - wildcards + i - 1) --i;
      if (i == 0) return {};
      ++at[i - 1];
      std::iota(at.begin() + static_cast<std::ptrdiff_t>(i), at.end(), at[i - 1] + 1);
    }
  }

 private:
  static constexpr size_t kMaxFields = 20000;

  static bool IsIn(const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  }
  static std::vector<std::string> Sorted(std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return names;
  }

  std::vector<std::string> names_;              // of the fields that are no crosses
  std::set<std::vector<std::string>> crossed_;  // no combination of fields is crossed twice
};

Status ExpandFields(const std::vector<WrittenField>& written, std::vector<FieldSpec>& fields) {
  CrossExpander expander(written);
  for (const WrittenField& one : written) {
    if (HasWildcard(one.field)) {
      RETURN_IF_ERROR(expander.Expand(one, fields));
    } else {
      fields.push_back(one.field);
    }
  }
  return {};
}

Result<FeatureSpec> ReadSpec(element root) {
  object json;
  if (root.get(json) != simdjson::SUCCESS) return Invalid("expected a JSON object");
  FeatureSpec spec;
  Members members(json, "");
  ASSIGN_OR_RETURN(const std::optional<element> label, members.Find("label"));
  if (label) RETURN_IF_ERROR(ReadLabel(*label, spec.label));
  RETURN_IF_ERROR(members.Text("weight", spec.weight_column));
  auto hash_bits = static_cast<uint64_t>(spec.hash_bits);
  RETURN_IF_ERROR(members.Uint("hash_bits", hash_bits));
  spec.hash_bits = static_cast<int>(std::min<uint64_t>(hash_bits, 1000));
  RETURN_IF_ERROR(members.Texts("csv_columns", spec.csv_columns));
  ASSIGN_OR_RETURN(const std::optional<element> fields, members.Find("fields"));
  simdjson::dom::array list;
  if (!fields || fields->get(list) != simdjson::SUCCESS) {
    return members.Error("fields", "a list of fields");
  }
  std::vector<WrittenField> written;
  for (const element field : list) {
    written.emplace_back();
    RETURN_IF_ERROR(ReadField(field, written.size(), written.back()));
  }
  RETURN_IF_ERROR(ExpandFields(written, spec.fields));
  RETURN_IF_ERROR(members.RejectOthers());
  RETURN_IF_ERROR(spec.Validate());
  return spec;
}

}  // namespace

Result<FeatureSpec> ParseFeatureSpec(std::string_view json, const std::string& source) {
  simdjson::dom::parser parser;
  element root;
  const auto error = parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return Invalid(source + ": expected JSON, found an error: " + simdjson::error_message(error));
  }
  Result<FeatureSpec> spec = ReadSpec(root);
  if (!spec.ok()) return Invalid(source + ": " + spec.status().message());
  return spec;
}

Result<FeatureSpec> LoadFeatureSpec(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path));
  return ParseFeatureSpec(text, path);
}

}  // namespace millrace::io
