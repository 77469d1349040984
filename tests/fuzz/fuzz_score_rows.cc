// SPDX-License-Identifier: Apache-2.0
// Rows of named fields, and JSON rows, for libmillrace-score: no input crashes it, and a context
// with candidates has the scores of the rows that they make. The first byte tells JSON lines (j),
// whose first is the context, from fields: bytes that say for each field its name, its kind, its
// value and whether its row ends.

#include <unistd.h>

#include <algorithm>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/features/feature_spec.h"
#include "io/rows/row_format.h"
#include "millrace/score.h"
#include "sparse/score/serving_writer.h"
#include "trainer/model/model.h"

namespace millrace {
namespace {

constexpr char kSpec[] = R"({"hash_bits": 8, "label": {"column": "y"}, "fields": [
  {"name": "a"}, {"name": "b.c", "rule": "bucket", "boundaries": [1, 2], "missing": "key"},
  {"name": "n", "rule": "number"}, {"name": "s", "separator": ",", "default": "x,y"},
  {"name": "a x b.c", "rule": "cross", "of": ["a", "b.c"]},
  {"name": "n x s", "rule": "cross", "of": ["n", "s"]}]})";
const char* const kNames[] = {"a", "b.c", "n", "s", "y", "unknown", "", "b"};
constexpr uint64_t kMaxKeys = 100000;

Status WriteModel(const std::string& path) {
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, io::ParseFeatureSpec(kSpec, "spec"));
  io::RowFormat rows = {.format = io::InputFormat::kJson};
  ASSIGN_OR_RETURN(rows.rows.features, io::EncoderPlan::Make(spec));
  rows.rows.num_features = spec.num_features();
  io::StateFields fields;
  trainer::ModelInfo info = {.num_features = spec.num_features(), .rule = "sgd"};
  info.input = rows;
  trainer::AddModelInfo(info, fields);
  ASSIGN_OR_RETURN(
      auto writer,
      score::ServingWriter::Create(
          path, score::DenseShape(info.num_features, 1, score::WeightsType::kF32), fields));
  for (uint64_t key = 0; key < info.num_features; key += 2) {
    const float weight = static_cast<float>(key) / 100;
    RETURN_IF_ERROR(writer.Add(key, {&weight, 1}));
  }
  return writer.Finish();
}

millrace_scorer* OpenScorer() {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("fuzz-rows-" + std::to_string(::getpid()) + ".serving"))
                               .string();
  const Status written = WriteModel(path);
  millrace_scorer* scorer = nullptr;
  millrace_score_error error;
  const int code = millrace_score_open(path.c_str(), 0, &scorer, &error);
  std::filesystem::remove(path);
  if (!written.ok() || code != MILLRACE_SCORE_OK) {
    std::fprintf(stderr, "%s%s\n", written.message().c_str(), error.message);
    std::abort();
  }
  millrace_score_limit_keys(scorer, kMaxKeys);
  return scorer;
}

// What a call returns: its scores, or its code alone.
struct Answer {
  int code = 0;
  std::vector<double> scores = {};

  void Check(const millrace_score_error& error) {
    CHECK(code == MILLRACE_SCORE_OK || code == MILLRACE_SCORE_INVALID);
    CHECK(std::memchr(error.message, 0, sizeof error.message) != nullptr);
    CHECK((code == MILLRACE_SCORE_OK) == (error.message[0] == 0));
    if (code != MILLRACE_SCORE_OK) scores.clear();
  }
  bool operator==(const Answer& other) const {
    return code == other.code && scores.size() == other.scores.size() &&
           (scores.empty() ||
            std::memcmp(scores.data(), other.scores.data(), scores.size() * sizeof(double)) == 0);
  }
};

void FuzzJson(millrace_scorer* scorer, std::string_view input) {
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view context = input.substr(0, line);
  const std::string_view lines = input.substr(std::min(line + 1, input.size()));
  const size_t capacity = 1 + static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
  millrace_score_error error;
  Answer plain = {.scores = std::vector<double>(capacity)}, empty_context = plain, both = plain;
  size_t rows = 0;
  plain.code = millrace_score_json(scorer, lines.data(), lines.size(), 1, plain.scores.data(),
                                   capacity, &rows, nullptr, &error);
  plain.scores.resize(rows);
  plain.Check(error);
  const auto candidates = [&](std::string_view with, Answer& answer) {
    answer.code =
        millrace_score_json_candidates(scorer, with.data(), with.size(), lines.data(), lines.size(),
                                       1, answer.scores.data(), capacity, &rows, nullptr, &error);
    answer.scores.resize(rows);
    answer.Check(error);
  };
  candidates("{}", empty_context);
  CHECK(empty_context == plain);
  candidates(context, both);
}

// Rows of the fields that the bytes describe.
struct Rows {
  std::vector<millrace_field> fields = {};
  std::vector<uint64_t> begin = {0};

  millrace_rows view() const {
    return {.rows = begin.size() - 1, .row_begin = begin.data(), .fields = fields.data()};
  }
};

Rows RowsOf(std::string_view bytes) {
  Rows rows;
  while (bytes.size() >= 3) {
    const auto head = static_cast<unsigned char>(bytes[0]);
    const auto kind = static_cast<unsigned char>(bytes[1]);
    const size_t size = std::min<size_t>(static_cast<unsigned char>(bytes[2]), bytes.size() - 3);
    const std::string_view value = bytes.substr(3, size);
    bytes.remove_prefix(3 + size);
    millrace_field field = {};
    const char* const name = kNames[head % 8];
    field.name = name;
    field.name_size = std::strlen(name);
    field.kind = kind % 5;  // 4 is wrong
    if (field.kind == MILLRACE_SCORE_TEXT) {
      field.value.text.data = value.data();
      field.value.text.size = value.size();
    } else {
      std::memcpy(&field.value, value.data(), std::min(value.size(), sizeof(int64_t)));
    }
    rows.fields.push_back(field);
    if (head & 0x80) rows.begin.push_back(rows.fields.size());
  }
  rows.begin.push_back(rows.fields.size());
  return rows;
}

std::string_view NameOf(const millrace_field& field) { return {field.name, field.name_size}; }

// The row of the context with the columns that a candidate has in place of its own.
void AppendJoined(const Rows& context, const millrace_field* begin, const millrace_field* end,
                  Rows& joined) {
  joined.fields.insert(joined.fields.end(), begin, end);
  for (const millrace_field& field : context.fields) {
    const bool replaced = std::any_of(begin, end, [&](const millrace_field& own) {
      return NameOf(own) == NameOf(field) &&
             (own.kind != MILLRACE_SCORE_TEXT || own.value.text.size > 0);
    });
    if (!replaced) joined.fields.push_back(field);
  }
  joined.begin.push_back(joined.fields.size());
}

void FuzzFields(millrace_scorer* scorer, std::string_view input) {
  const size_t half = input.size() / 4;
  Rows context = RowsOf(input.substr(0, half));
  context.begin = {0, context.fields.size()};
  const Rows candidates = RowsOf(input.substr(half));
  Rows joined;
  for (size_t r = 0; r + 1 < candidates.begin.size(); ++r) {
    AppendJoined(context, candidates.fields.data() + candidates.begin[r],
                 candidates.fields.data() + candidates.begin[r + 1], joined);
  }
  const millrace_rows one = context.view(), many = candidates.view(), all = joined.view();
  millrace_score_error error;
  Answer answers[2];
  for (Answer& answer : answers) answer.scores.resize(many.rows);
  answers[0].code = millrace_score_rows(scorer, &all, 1, answers[0].scores.data(), nullptr, &error);
  answers[0].Check(error);
  answers[1].code = millrace_score_row_candidates(scorer, &one, &many, 1, answers[1].scores.data(),
                                                  nullptr, &error);
  answers[1].Check(error);
  // A kind that is wrong is an error of the context as well where all candidates replace it.
  const bool wrong_kind = std::any_of(context.fields.begin(), context.fields.end(),
                                      [](const millrace_field& field) { return field.kind > 3; });
  CHECK(answers[0] == answers[1] || wrong_kind);
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static millrace_scorer* const scorer = millrace::OpenScorer();
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'j') {
    millrace::FuzzJson(scorer, input);
  } else {
    millrace::FuzzFields(scorer, input);
  }
  return 0;
}
