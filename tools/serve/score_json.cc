// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/score_json.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "io/features/feature_spec.h"
#include "tools/serve/request_rows.h"

namespace millrace::serve {
namespace {

namespace dom = simdjson::dom;
using dom::element_type;

constexpr int kProbabilityDigits = 9;  // as millrace-predict
// Of a request, made of names of members inside each other: each repeats the ones around it.
constexpr size_t kMaxNameBytes = 4 << 20;
constexpr size_t kShownName = 60;

std::string Quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

const char* TypeName(element_type type) {
  switch (type) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

Status Expected(std::string_view where, const char* what, const dom::element& found) {
  return Invalid(Quoted(where) + ": expected " + what + ", found " + TypeName(found.type()));
}

// Rows of named fields, as the library takes them. Texts are views of the parsed document.
class FieldRows {
 public:
  void Clear() {
    fields_.Clear();
    names_.clear();
    name_bytes_ = 0;
    texts_.clear();
    shape_.clear();
  }

  millrace_rows view() const { return fields_.view(); }

  Status AddObject(const dom::object& object) {
    row_names_.clear();
    RETURN_IF_ERROR(AddMembers("", object));
    RETURN_IF_ERROR(CheckNames());
    fields_.EndRow();
    return {};
  }

  // {"site": ["news", "shop"], "age": [31, null]}
  Status AddColumns(std::string_view where, const dom::object& object) {
    struct Column {
      std::string_view name;
      dom::array::iterator next, end;
    };
    std::vector<Column> columns;
    row_names_.clear();
    size_t rows = 0;
    for (const dom::key_value_pair member : object) {
      dom::array values;
      if (member.value.get(values) != simdjson::SUCCESS) {
        return Expected(member.key, "an array with a value for each row", member.value);
      }
      const size_t size = values.size();
      if (!columns.empty() && size != rows) {
        return Invalid(Quoted(member.key) + ": expected " + std::to_string(rows) +
                       " values, as many as " + Quoted(columns[0].name) + " has, found " +
                       std::to_string(size));
      }
      rows = size;
      columns.push_back({member.key, values.begin(), values.end()});
      row_names_.push_back(member.key);
    }
    RETURN_IF_ERROR(CheckNames());
    if (columns.empty()) return Invalid(Quoted(where) + ": expected rows, found an empty object");
    for (size_t r = 0; r < rows; ++r) {
      for (Column& column : columns) {
        RETURN_IF_ERROR(AddValue(column.name, *column.next));
        ++column.next;
      }
      fields_.EndRow();
    }
    return {};
  }

 private:
  Status AddMembers(std::string_view prefix, const dom::object& object) {
    for (const dom::key_value_pair member : object) {
      std::string_view name = member.key;
      if (!prefix.empty()) {
        name_bytes_ += prefix.size() + 1 + name.size();
        if (name_bytes_ > kMaxNameBytes) {
          return Invalid("the names of members of objects, like " +
                         Quoted(prefix.substr(0, kShownName)) +
                         " with all that is inside, have more than " +
                         std::to_string(kMaxNameBytes) + " bytes");
        }
        name = names_.emplace_back(std::string(prefix) + "." + std::string(member.key));
      }
      if (member.value.type() == element_type::OBJECT) {
        RETURN_IF_ERROR(AddMembers(name, member.value.get_object().value_unsafe()));
        continue;
      }
      row_names_.push_back(name);
      RETURN_IF_ERROR(AddValue(name, member.value));
    }
    return {};
  }

  Status AddValue(std::string_view name, const dom::element& value) {
    if (value.type() != element_type::ARRAY) return AddScalar(name, value);
    const dom::array items = value.get_array().value_unsafe();
    for (const dom::element item : items) {
      RETURN_IF_ERROR(AddScalar(name, item));
    }
    return {};
  }

  Status AddScalar(std::string_view name, const dom::element& value) {
    switch (value.type()) {
      case element_type::STRING:
        fields_.AddText(name, value.get_string().value_unsafe());
        return {};
      case element_type::INT64:
        fields_.AddInt(name, value.get_int64().value_unsafe());
        return {};
      case element_type::UINT64:
        fields_.AddText(name,
                        texts_.emplace_back(std::to_string(value.get_uint64().value_unsafe())));
        return {};
      case element_type::DOUBLE:
        fields_.AddDouble(name, value.get_double().value_unsafe());
        return {};
      case element_type::BOOL:
        fields_.AddText(name, value.get_bool().value_unsafe() ? "true" : "false");
        return {};
      case element_type::NULL_VALUE:
        return {};
      default:
        return Expected(name, "a text, a number, true, false or null", value);
    }
  }

  // No name may come twice: it is not clear which value counts. Most rows have the names of the row
  // before, in the same order.
  Status CheckNames() {
    if (row_names_ == shape_) return {};
    sorted_ = row_names_;
    std::sort(sorted_.begin(), sorted_.end());
    const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
    if (twice != sorted_.end()) return Invalid(Quoted(*twice) + " comes twice in a row");
    shape_ = row_names_;
    return {};
  }

  FieldList fields_;
  std::vector<std::string_view> row_names_, shape_, sorted_;
  std::deque<std::string> names_, texts_;  // that are not in the document
  size_t name_bytes_ = 0;                  // of names_
};

// Rows of keys.
class KeyLists {
 public:
  void Clear() { list_.Clear(); }
  millrace_keys view() const { return list_.view(); }

  Status AddRows(std::string_view where, const dom::element& rows) {
    return ForEachRow(where, rows, [&](const dom::element& row) { return AddRow(where, row); });
  }
  Status AddRow(std::string_view where, const dom::element& row) {
    RETURN_IF_ERROR(
        ForEach(where, row, "keys, integers from 0 to 2^64 - 2", [&](const dom::element& item) {
          uint64_t key = 0;
          if (item.get(key) != simdjson::SUCCESS) return false;
          list_.keys.push_back(key);
          return true;
        }));
    list_.EndRow();
    return {};
  }

  // Behind the keys.
  Status SetValues(std::string_view where, const dom::element& element, bool one_row) {
    list_.has_values = true;
    return AddLike(where, element, one_row, "numbers", [&](const dom::element& item) {
      double value = 0;
      if (item.get(value) != simdjson::SUCCESS) return false;
      list_.values.push_back(static_cast<float>(value));
      return true;
    });
  }
  Status SetFields(std::string_view where, const dom::element& element, bool one_row) {
    list_.has_fields = true;
    return AddLike(where, element, one_row, "field numbers, integers from 0 to 65535",
                   [&](const dom::element& item) {
                     uint64_t field = 0;
                     if (item.get(field) != simdjson::SUCCESS || field > UINT16_MAX) return false;
                     list_.fields.push_back(static_cast<uint16_t>(field));
                     return true;
                   });
  }

 private:
  template <typename Visit>
  static Status ForEachRow(std::string_view where, const dom::element& element,
                           const Visit& visit) {
    dom::array rows;
    if (element.get(rows) != simdjson::SUCCESS) {
      return Expected(where, "an array of rows", element);
    }
    for (const dom::element row : rows) RETURN_IF_ERROR(visit(row));
    return {};
  }

  template <typename Visit>
  static Status ForEach(std::string_view where, const dom::element& element, const char* what,
                        const Visit& visit) {
    dom::array items;
    if (element.get(items) != simdjson::SUCCESS) {
      return Expected(where, (std::string("an array of ") + what).c_str(), element);
    }
    for (const dom::element item : items) {
      if (!visit(item)) return Expected(where, what, item);
    }
    return {};
  }

  // One number for each key.
  template <typename Visit>
  Status AddLike(std::string_view where, const dom::element& element, bool one_row,
                 const char* what, const Visit& visit) {
    size_t row = 0;
    const auto add = [&](const dom::element& items) -> Status {
      size_t count = 0;
      RETURN_IF_ERROR(ForEach(where, items, what, [&](const dom::element& item) {
        ++count;
        return visit(item);
      }));
      const size_t expected = row < list_.rows() ? list_.begin[row + 1] - list_.begin[row] : 0;
      if (row >= list_.rows() || count != expected) {
        return Invalid(Quoted(where) + ": expected one for each key, " + std::to_string(expected) +
                       " in row " + std::to_string(row) + ", found " + std::to_string(count));
      }
      ++row;
      return {};
    };
    RETURN_IF_ERROR(one_row ? add(element) : ForEachRow(where, element, add));
    if (row == list_.rows()) return {};
    return Invalid(Quoted(where) + ": expected " + std::to_string(list_.rows()) +
                   " rows, as many as there are rows of keys, found " + std::to_string(row));
  }

  KeyList list_;
};

// The members of a request.
enum Member {
  kRows,
  kContext,
  kCandidates,
  kKeys,
  kValues,
  kFields,
  kContextKeys,
  kContextValues,
  kContextFields,
  kCandidateKeys,
  kCandidateValues,
  kCandidateFields,
  kOutput,
  kMembers
};
constexpr std::string_view kNames[kMembers] = {
    "rows",           "context",        "candidates",       "keys",
    "values",         "fields",         "context_keys",     "context_values",
    "context_fields", "candidate_keys", "candidate_values", "candidate_fields",
    "output"};

struct Members {
  dom::element at[kMembers];
  bool has[kMembers] = {};
};

Result<Members> MembersOf(const dom::element& root) {
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return Invalid(std::string("expected a JSON object, found ") + TypeName(root.type()));
  }
  Members members;
  for (const dom::key_value_pair member : object) {
    const auto* const name = std::find(kNames, kNames + kMembers, member.key);
    if (name == kNames + kMembers) {
      return Invalid("unknown member " + Quoted(member.key) +
                     "; expected rows, context and candidates, keys, or context_keys and "
                     "candidate_keys");
    }
    const auto i = static_cast<size_t>(name - kNames);
    if (std::exchange(members.has[i], true)) return Invalid(Quoted(member.key) + " comes twice");
    members.at[i] = member.value;
  }
  return members;
}

// One of the ways to give rows: its members, all but the last two required.
struct Form {
  Member first, second;  // the same: there is one
  Member optional[4];    // of values and fields; kOutput: none
};
constexpr Form kForms[] = {
    {kRows, kRows, {kOutput, kOutput, kOutput, kOutput}},
    {kContext, kCandidates, {kOutput, kOutput, kOutput, kOutput}},
    {kKeys, kKeys, {kValues, kFields, kOutput, kOutput}},
    {kContextKeys,
     kCandidateKeys,
     {kContextValues, kContextFields, kCandidateValues, kCandidateFields}},
};

Result<Member> FormOf(const Members& members) {
  for (const Form& form : kForms) {
    if (!members.has[form.first] && !members.has[form.second]) continue;
    for (const Member required : {form.first, form.second}) {
      if (!members.has[required]) {
        return Invalid(Quoted(kNames[required == form.first ? form.second : form.first]) +
                       " needs " + Quoted(kNames[required]));
      }
    }
    for (int i = 0; i < kMembers; ++i) {
      const bool fits =
          i == form.first || i == form.second || i == kOutput ||
          std::find(form.optional, std::end(form.optional), i) != std::end(form.optional);
      if (members.has[i] && !fits) {
        return Invalid(Quoted(kNames[i]) + " does not go with " + Quoted(kNames[form.first]));
      }
    }
    return form.first;
  }
  return Invalid(
      "no rows: expected rows, context and candidates, keys, or context_keys and candidate_keys");
}

Status ReadOutput(const Members& members, int& output) {
  output = MILLRACE_SCORE_PROBABILITY;
  if (!members.has[kOutput]) return {};
  std::string_view name;
  if (members.at[kOutput].get(name) == simdjson::SUCCESS) {
    if (name == "probability") return {};
    if (name == "margin") {
      output = MILLRACE_SCORE_MARGIN;
      return {};
    }
  }
  return Invalid("'output': expected \"probability\" or \"margin\"");
}

Status ReadRows(std::string_view where, const dom::element& element, FieldRows& rows) {
  rows.Clear();
  if (element.type() == element_type::OBJECT) {
    return rows.AddColumns(where, element.get_object().value_unsafe());
  }
  if (element.type() != element_type::ARRAY) {
    return Expected(where, "an array of rows, or an object of columns", element);
  }
  const dom::array items = element.get_array().value_unsafe();
  for (const dom::element row : items) {
    dom::object object;
    if (row.get(object) != simdjson::SUCCESS) return Expected(where, "rows, objects", row);
    RETURN_IF_ERROR(rows.AddObject(object));
  }
  return {};
}

Status ReadContext(const dom::element& element, FieldRows& rows) {
  rows.Clear();
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) return Expected("context", "an object", element);
  return rows.AddObject(object);
}

Status ReadKeys(const Members& members, Member keys, bool one_row, KeyLists& lists) {
  const auto values = static_cast<Member>(keys + 1), fields = static_cast<Member>(keys + 2);
  lists.Clear();
  RETURN_IF_ERROR(one_row ? lists.AddRow(kNames[keys], members.at[keys])
                          : lists.AddRows(kNames[keys], members.at[keys]));
  if (members.has[values]) {
    RETURN_IF_ERROR(lists.SetValues(kNames[values], members.at[values], one_row));
  }
  if (!members.has[fields]) return {};
  return lists.SetFields(kNames[fields], members.at[fields], one_row);
}

}  // namespace

Status StatusOf(int code, const millrace_score_error& error) {
  switch (code) {
    case MILLRACE_SCORE_OK:
      return {};
    case MILLRACE_SCORE_INVALID:
      return Invalid(error.message);
    default:
      return Failed(error.message);
  }
}

void AppendScore(double score, int output, std::string& out) {
  char text[40];
  char* const end = text + sizeof text;
  if (!std::isfinite(score)) {
    out += std::isnan(score) ? "\"NaN\"" : score > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  char* const last =
      output == MILLRACE_SCORE_MARGIN
          ? std::to_chars(text, end, static_cast<float>(score)).ptr
          : std::to_chars(text, end, score, std::chars_format::general, kProbabilityDigits).ptr;
  out.append(text, last);
}

Status CheckFields(millrace_scorer* scorer, const millrace_rows& rows) {
  millrace_score_info info;
  millrace_score_error error;
  RETURN_IF_ERROR(StatusOf(millrace_score_get_info(scorer, &info, &error), error));
  const std::string json = info.feature_spec ? info.feature_spec : "";
  millrace_score_free_info(&info);
  if (json.empty()) return {};  // the model was replaced
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, io::ParseFeatureSpec(json, "the model"));
  const std::vector<std::string> columns = spec.Columns();
  const millrace_field* const end = rows.fields + rows.row_begin[rows.rows];
  for (const millrace_field* field = rows.fields; field != end; ++field) {
    const std::string_view name(field->name, field->name_size);
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) {
      return Invalid(Quoted(name) + " is no field of the model");
    }
  }
  return {};
}

class JsonScorer::Impl {
 public:
  Status Score(millrace_scorer* scorer, UnknownFields unknown, std::string& body,
               std::string& response, millrace_score_counts& counts) {
    body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
    dom::element root;
    if (const auto error = parser_.parse(body.data(), body.size(), false).get(root)) {
      return Invalid(std::string("no valid JSON: ") + simdjson::error_message(error));
    }
    ASSIGN_OR_RETURN(const Members members, MembersOf(root));
    ASSIGN_OR_RETURN(const Member form, FormOf(members));
    int output = 0;
    RETURN_IF_ERROR(ReadOutput(members, output));
    RETURN_IF_ERROR(Run(scorer, members, form, output, counts));
    if (counts.ignored_fields > 0 && unknown == UnknownFields::kError) {
      if (form == kContext) RETURN_IF_ERROR(CheckFields(scorer, context_.view()));
      RETURN_IF_ERROR(CheckFields(scorer, rows_.view()));
    }
    Write(output, counts, response);
    return {};
  }

 private:
  Status Run(millrace_scorer* scorer, const Members& members, Member form, int output,
             millrace_score_counts& counts) {
    millrace_score_error error;
    const auto done = [&](int code) { return StatusOf(code, error); };
    if (form == kRows || form == kContext) {
      const Member member = form == kRows ? kRows : kCandidates;
      RETURN_IF_ERROR(ReadRows(kNames[member], members.at[member], rows_));
      const millrace_rows rows = rows_.view();
      scores_.resize(rows.rows);
      if (form == kRows) {
        return done(millrace_score_rows(scorer, &rows, output, scores_.data(), &counts, &error));
      }
      RETURN_IF_ERROR(ReadContext(members.at[kContext], context_));
      const millrace_rows context = context_.view();
      return done(millrace_score_row_candidates(scorer, &context, &rows, output, scores_.data(),
                                                &counts, &error));
    }
    RETURN_IF_ERROR(ReadKeys(members, form == kKeys ? kKeys : kCandidateKeys, false, keys_));
    const millrace_keys keys = keys_.view();
    scores_.resize(keys.rows);
    if (form == kKeys) {
      return done(millrace_score_keys(scorer, &keys, output, scores_.data(), &counts, &error));
    }
    RETURN_IF_ERROR(ReadKeys(members, kContextKeys, true, context_keys_));
    const millrace_keys context = context_keys_.view();
    return done(millrace_score_key_candidates(scorer, &context, &keys, output, scores_.data(),
                                              &counts, &error));
  }

  void Write(int output, const millrace_score_counts& counts, std::string& response) {
    response.clear();
    response.reserve(64 + 13 * scores_.size());
    response += "{\"scores\":[";
    for (const double score : scores_) {
      AppendScore(score, output, response);
      response += ',';
    }
    if (!scores_.empty()) response.pop_back();
    response += "],\"keys\":" + std::to_string(counts.keys) +
                ",\"unknown_keys\":" + std::to_string(counts.unknown_keys) + "}";
  }

  dom::parser parser_;
  FieldRows rows_, context_;
  KeyLists keys_, context_keys_;
  std::vector<double> scores_;
};

JsonScorer::JsonScorer() : impl_(std::make_unique<Impl>()) {}
JsonScorer::~JsonScorer() = default;

Status JsonScorer::Score(millrace_scorer* scorer, UnknownFields unknown, std::string& body,
                         std::string& response, millrace_score_counts& counts) {
  counts = {};
  return impl_->Score(scorer, unknown, body, response, counts);
}

}  // namespace millrace::serve
