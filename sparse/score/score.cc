// SPDX-License-Identifier: Apache-2.0
// The C functions of libmillrace-score. No exception leaves them.
#include "millrace/score.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sparse/score/model_slots.h"
#include "sparse/score/probability.h"
#include "sparse/score/row_encoder.h"
#include "sparse/score/row_scorer.h"
#include "sparse/score/serving_model.h"

namespace millrace::score {
namespace {

constexpr uint64_t kMaxRowEntries = uint64_t{1} << 31;
// The keys of a call that does not name each of them are bounded, since a small context or cross
// may multiply them: a call is to take less than a second.
constexpr uint64_t kMaxKeys = 1 << 24;
constexpr uint64_t kMaxKeysPerRow = 1 << 10;  // calls without a context: on average
// Rows of fields that are encoded before they are scored: their keys fit into the cache.
constexpr size_t kEncodedEntries = 2048, kEncodedRows = 2048;

struct Scratch {
  RowEncoder encoder;
  RowScorer scorer;
  PodVector<float> margins;
  PodVector<io::SharedRun> runs;
  PodVector<uint32_t> run_end;

  void UseModel(const ServingModel& model) { encoder.UseModel(model); }
};

}  // namespace
}  // namespace millrace::score

struct millrace_scorer {
  using Slots =
      millrace::score::ModelSlots<millrace::score::ServingModel, millrace::score::Scratch>;
  explicit millrace_scorer(std::unique_ptr<const millrace::score::ServingModel> model)
      : slots(std::move(model)) {}

  Slots slots;
  std::atomic<uint64_t> swaps = 0;
  std::atomic<uint64_t> max_keys = 0;  // of a call; 0: the default

  uint64_t MaxKeys(uint64_t by_default) const {
    const uint64_t keys = max_keys;
    return keys > 0 ? keys : by_default;
  }
};

namespace millrace::score {
namespace {

using Hold = millrace_scorer::Slots::Hold;

int CodeOf(Code code) {
  switch (code) {
    case Code::kOk:
      return MILLRACE_SCORE_OK;
    case Code::kNotFound:
      return MILLRACE_SCORE_NOT_FOUND;
    case Code::kIo:
      return MILLRACE_SCORE_IO;
    case Code::kCorrupt:
      return MILLRACE_SCORE_CORRUPT;
    default:
      return MILLRACE_SCORE_INVALID;
  }
}

int Report(int code, const char* message, millrace_score_error* error) {
  if (!error) return code;
  error->code = code;
  std::snprintf(error->message, sizeof error->message, "%s", message);
  // A message is one line.
  for (char* c = error->message; *c; ++c) {
    if (static_cast<unsigned char>(*c) < ' ') *c = ' ';
  }
  return code;
}

// Runs the body of a C function.
template <typename Body>
int Guarded(millrace_score_error* error, const Body& body) {
  try {
    const Status status = body();
    return Report(CodeOf(status.code()), status.message().c_str(), error);
  } catch (const std::bad_alloc&) {
    return Report(MILLRACE_SCORE_NO_MEMORY, "not enough memory", error);
  } catch (const std::exception& failure) {
    return Report(MILLRACE_SCORE_NO_MEMORY, failure.what(), error);
  }
}

// An error of a row is one of the caller's argument.
Status AsInvalid(const Status& status, const std::string& what) {
  return status.ok() ? status : Invalid(what + ": " + status.message());
}

std::string RowText(size_t row) { return "row " + std::to_string(row); }

Result<std::unique_ptr<const ServingModel>> OpenModel(const char* path, uint32_t flags) {
  constexpr uint32_t kAll = MILLRACE_SCORE_PRELOAD | MILLRACE_SCORE_VERIFY | MILLRACE_SCORE_COPY;
  if (!path) return Invalid("path: expected a file name, found NULL");
  if ((flags & ~kAll) != 0) {
    return Invalid("flags: expected a sum of the flags of score.h, found " + std::to_string(flags));
  }
  return ServingModel::Open(path, {.preload = (flags & MILLRACE_SCORE_PRELOAD) != 0,
                                   .verify = (flags & MILLRACE_SCORE_VERIFY) != 0,
                                   .copy = (flags & MILLRACE_SCORE_COPY) != 0});
}

Status CheckOutput(int output, const double* scores, size_t rows) {
  if (output != MILLRACE_SCORE_PROBABILITY && output != MILLRACE_SCORE_MARGIN) {
    return Invalid("output: expected 0 (probability) or 1 (margin), found " +
                   std::to_string(output));
  }
  if (rows > 0 && !scores) return Invalid("scores: expected an array, found NULL");
  return {};
}

void WriteScores(std::span<const float> margins, int output, double* scores) {
  if (output == MILLRACE_SCORE_MARGIN) {
    std::copy(margins.begin(), margins.end(), scores);
    return;
  }
  for (size_t r = 0; r < margins.size(); ++r) scores[r] = Probability(double{margins[r]});
}

// Where the scores of a call go, and its counts.
struct Output {
  int kind;
  double* scores;
  uint64_t max_keys;
  KeyCounts keys = {};
  uint64_t rows = 0;

  Status Add(const ServingModel& model, const KeyRows& more, Scratch& scratch) {
    if (more.row_begin.back() - more.row_begin.front() > max_keys - keys.keys) {
      return TooManyKeys(max_keys);
    }
    scratch.margins.resize(more.rows());
    RETURN_IF_ERROR(scratch.scorer.Margins(model, more, scratch.margins, keys, rows));
    Write(scratch.margins);
    return {};
  }
  Status AddCandidates(const ServingModel& model, const CandidateKeys& more, Scratch& scratch) {
    scratch.margins.resize(more.rows());
    RETURN_IF_ERROR(
        scratch.scorer.CandidateMargins(model, more, scratch.margins, keys, max_keys, rows));
    Write(scratch.margins);
    return {};
  }
  void Write(std::span<const float> margins) {
    WriteScores(margins, kind, scores + rows);
    rows += margins.size();
  }
  void Fill(millrace_score_counts* counts, uint64_t ignored_fields) const {
    if (!counts) return;
    *counts = {rows, keys.keys, keys.unknown, ignored_fields};
  }
};

Status CheckKeys(const millrace_keys* keys, const char* name) {
  const auto expected = [&](const std::string& what) {
    return Invalid(std::string(name) + ": expected " + what);
  };
  if (!keys) return expected("rows, found NULL");
  if (!keys->row_begin) return expected("row_begin, found NULL");
  if (keys->row_begin[keys->rows] < keys->row_begin[0]) return expected("row_begin to ascend");
  const bool has_keys = keys->row_begin[keys->rows] > keys->row_begin[0];
  return has_keys && !keys->keys ? expected("keys, found NULL") : Status();
}

KeyRows ViewOf(const millrace_keys& keys) {
  return {.row_begin = {keys.row_begin, keys.rows + 1},
          .keys = keys.keys,
          .values = keys.values,
          .fields = keys.fields};
}

Status CheckRows(const millrace_rows* rows, const char* name) {
  const auto expected = [&](const std::string& what) {
    return Invalid(std::string(name) + ": expected " + what);
  };
  if (!rows) return expected("rows, found NULL");
  if (!rows->row_begin) return expected("row_begin, found NULL");
  for (size_t r = 0; r < rows->rows; ++r) {
    if (rows->row_begin[r] > rows->row_begin[r + 1]) return expected("row_begin to ascend");
  }
  const bool has_fields = rows->row_begin[rows->rows] > rows->row_begin[0];
  return has_fields && !rows->fields ? expected("fields, found NULL") : Status();
}

std::span<const millrace_field> FieldsOf(const millrace_rows& rows, size_t r) {
  if (rows.row_begin[r] == rows.row_begin[r + 1]) return {};
  return {rows.fields + rows.row_begin[r], rows.fields + rows.row_begin[r + 1]};
}

// Scores rows that are encoded one after the other.
class EncodedRows {
 public:
  EncodedRows(Hold& hold, Output& output) : hold_(hold), output_(output) {}

  Status Begin() { return encoder().Begin(hold_.model(), output_.max_keys); }
  // Candidates follow.
  Status UseContext() {
    has_context_ = true;
    return hold_.scratch().scorer.SetContext(hold_.model(), encoder().context_keys(),
                                             encoder().context_values(),
                                             encoder().context_fields());
  }
  RowEncoder& encoder() { return hold_.scratch().encoder; }
  // After each row.
  Status FlushIfFull() {
    const bool full = encoder().entries() >= kEncodedEntries || encoder().rows() >= kEncodedRows;
    return full ? Flush() : Status();
  }
  Status Flush() {
    if (encoder().rows() == 0) return {};
    Scratch& scratch = hold_.scratch();
    RETURN_IF_ERROR(has_context_
                        ? output_.AddCandidates(hold_.model(), encoder().candidates(), scratch)
                        : output_.Add(hold_.model(), encoder().key_rows(), scratch));
    encoder().DropRows();
    return {};
  }

 private:
  Hold& hold_;
  Output& output_;
  bool has_context_ = false;
};

// Rows of a context and candidates: each row has all entries of the context, then its own.
Status AddKeyCandidates(const ServingModel& model, const millrace_keys& context,
                        const millrace_keys& candidates, Output& out, Scratch& scratch) {
  const uint64_t first = context.row_begin[0], shared = context.row_begin[1] - first;
  const uint64_t begin = candidates.row_begin[0];
  if (shared > kMaxRowEntries) return Invalid("context: expected at most 2^31 keys");
  scratch.runs.clear();
  scratch.run_end.clear();
  for (size_t r = 0; r < candidates.rows; ++r) {
    const uint64_t from = candidates.row_begin[r], to = candidates.row_begin[r + 1];
    if (from > to || to - from > kMaxRowEntries) {
      return Invalid(RowText(r) + ": expected row_begin to ascend, found " + std::to_string(from) +
                     " and then " + std::to_string(to));
    }
    scratch.runs.push_back({0, static_cast<uint32_t>(shared), static_cast<uint32_t>(to - from)});
    scratch.run_end.push_back(static_cast<uint32_t>(r + 1));
  }
  const std::span<const uint64_t> context_keys(context.keys + first, shared);
  RETURN_IF_ERROR(AsInvalid(
      scratch.scorer.SetContext(model, shared > 0 ? context_keys : std::span<const uint64_t>(),
                                context.values ? context.values + first : nullptr,
                                context.fields ? context.fields + first : nullptr),
      "context"));
  const uint64_t own = candidates.row_begin[candidates.rows] - begin;
  return out.AddCandidates(
      model,
      {.runs = scratch.runs,
       .run_end = scratch.run_end,
       .keys = own > 0 ? std::span(candidates.keys + begin, own) : std::span<const uint64_t>(),
       .values = candidates.values ? candidates.values + begin : nullptr,
       .fields = candidates.fields ? candidates.fields + begin : nullptr},
      scratch);
}

// Calls add(fields) for each row.
template <typename Add>
Status ScoreFields(const millrace_rows& rows, EncodedRows& encoded, const Add& add) {
  for (size_t r = 0; r < rows.rows; ++r) {
    RETURN_IF_ERROR(AsInvalid(add(FieldsOf(rows, r)), RowText(r)));
    RETURN_IF_ERROR(encoded.FlushIfFull());
  }
  return encoded.Flush();
}

// Calls add(line), which says whether it is a row, for each line.
template <typename Add>
Status ScoreLines(std::string_view lines, size_t capacity, size_t* num_rows, EncodedRows& encoded,
                  const Add& add) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const Result<bool> is_row = add(lines.substr(0, end));
    if (!is_row.ok()) return AsInvalid(is_row.status(), RowText(*num_rows));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!*is_row) continue;
    if (*num_rows == capacity) {
      return Invalid("expected at most " + std::to_string(capacity) +
                     " rows (capacity), found more");
    }
    ++*num_rows;
    RETURN_IF_ERROR(encoded.FlushIfFull());
  }
  return encoded.Flush();
}

Status CheckJson(const char* text, size_t size, const char* name) {
  return size > 0 && !text ? Invalid(std::string(name) + ": expected a text, found NULL")
                           : Status();
}

char* CopyText(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void FillInfo(const ServingModel& model, millrace_score_info& out) {
  const ServingInfo& info = model.info();
  std::snprintf(out.kind, sizeof out.kind, "%s", sparse::ModelKindName(info.factors.kind));
  std::snprintf(out.weights_type, sizeof out.weights_type, "%s", WeightsTypeName(info.table.type));
  std::snprintf(out.layout, sizeof out.layout, "%s", LayoutName(info.table.layout));
  std::snprintf(out.digest, sizeof out.digest, "%016llx",
                static_cast<unsigned long long>(model.digest()));
  out.num_features = info.num_features;
  out.num_weights = info.weights;
  out.num_factors = info.factors.kind == sparse::ModelKind::kLr ? 0 : info.factors.factors;
  out.num_fields = model.num_fields();
  out.steps = info.steps;
  out.examples = info.examples;
  out.file_bytes = model.file_bytes();
  out.path = CopyText(model.path());
  if (!info.input_format.empty()) out.input_format = CopyText(info.input_format);
  if (!info.feature_spec.empty()) out.feature_spec = CopyText(info.feature_spec);
}

}  // namespace
}  // namespace millrace::score

using namespace millrace;         // NOLINT(google-build-using-namespace)
using namespace millrace::score;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* millrace_score_version(void) { return MILLRACE_VERSION; }

int millrace_score_open(const char* path, uint32_t flags, millrace_scorer** scorer,
                        millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    if (!scorer) return Invalid("scorer: expected a place for the scorer, found NULL");
    *scorer = nullptr;
    ASSIGN_OR_RETURN(std::unique_ptr<const ServingModel> model, OpenModel(path, flags));
    *scorer = std::make_unique<millrace_scorer>(std::move(model)).release();
    return {};
  });
}

int millrace_score_swap(millrace_scorer* scorer, const char* path, uint32_t flags,
                        millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<const ServingModel> model, OpenModel(path, flags));
    scorer->slots.Swap(std::move(model));
    ++scorer->swaps;
    return {};
  });
}

int millrace_score_verify(const char* path, millrace_score_error* error) {
  return Guarded(error,
                 [&]() -> Status { return OpenModel(path, MILLRACE_SCORE_VERIFY).status(); });
}

void millrace_score_limit_keys(millrace_scorer* scorer, uint64_t max_keys) {
  scorer->max_keys = max_keys;
}

void millrace_score_close(millrace_scorer* scorer) {
  const std::unique_ptr<millrace_scorer> owned(scorer);
}

int millrace_score_get_info(millrace_scorer* scorer, millrace_score_info* info,
                            millrace_score_error* error) {
  if (!info) return Report(MILLRACE_SCORE_INVALID, "info: expected a place, found NULL", error);
  *info = {};
  const int code = Guarded(error, [&]() -> Status {
    const Hold hold(scorer->slots);
    FillInfo(hold.model(), *info);
    info->swaps = scorer->swaps;
    return {};
  });
  if (code != MILLRACE_SCORE_OK) millrace_score_free_info(info);
  return code;
}

void millrace_score_free_info(millrace_score_info* info) {
  if (!info) return;
  for (char** text : {&info->path, &info->input_format, &info->feature_spec}) {
    std::free(std::exchange(*text, nullptr));
  }
}

int millrace_score_keys(millrace_scorer* scorer, const millrace_keys* keys, int output,
                        double* scores, millrace_score_counts* counts,
                        millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckKeys(keys, "keys"));
    RETURN_IF_ERROR(CheckOutput(output, scores, keys->rows));
    Hold hold(scorer->slots);
    Output out = {output, scores, scorer->MaxKeys(UINT64_MAX)};
    RETURN_IF_ERROR(out.Add(hold.model(), ViewOf(*keys), hold.scratch()));
    out.Fill(counts, 0);
    return {};
  });
}

int millrace_score_rows(millrace_scorer* scorer, const millrace_rows* rows, int output,
                        double* scores, millrace_score_counts* counts,
                        millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckRows(rows, "rows"));
    RETURN_IF_ERROR(CheckOutput(output, scores, rows->rows));
    Hold hold(scorer->slots);
    Output out = {output, scores, scorer->MaxKeys(kMaxKeys + kMaxKeysPerRow * rows->rows)};
    EncodedRows encoded(hold, out);
    RETURN_IF_ERROR(encoded.Begin());
    RETURN_IF_ERROR(ScoreFields(*rows, encoded, [&](std::span<const millrace_field> fields) {
      return encoded.encoder().Add(fields);
    }));
    out.Fill(counts, encoded.encoder().ignored_fields());
    return {};
  });
}

int millrace_score_json(millrace_scorer* scorer, const char* lines, size_t size, int output,
                        double* scores, size_t capacity, size_t* num_rows,
                        millrace_score_counts* counts, millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    if (!num_rows) return Invalid("num_rows: expected a place, found NULL");
    *num_rows = 0;
    RETURN_IF_ERROR(CheckJson(lines, size, "lines"));
    RETURN_IF_ERROR(CheckOutput(output, scores, capacity));
    Hold hold(scorer->slots);
    Output out = {output, scores,
                  scorer->MaxKeys(kMaxKeys + kMaxKeysPerRow * std::min(capacity, size))};
    EncodedRows encoded(hold, out);
    RETURN_IF_ERROR(encoded.Begin());
    RETURN_IF_ERROR(
        ScoreLines({lines, size}, capacity, num_rows, encoded,
                   [&](std::string_view line) { return encoded.encoder().AddJson(line); }));
    out.Fill(counts, 0);
    return {};
  });
}

int millrace_score_key_candidates(millrace_scorer* scorer, const millrace_keys* context,
                                  const millrace_keys* candidates, int output, double* scores,
                                  millrace_score_counts* counts, millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckKeys(context, "context"));
    RETURN_IF_ERROR(CheckKeys(candidates, "candidates"));
    RETURN_IF_ERROR(CheckOutput(output, scores, candidates->rows));
    if (context->rows != 1) {
      return Invalid("context: expected one row, found " + std::to_string(context->rows));
    }
    Hold hold(scorer->slots);
    Output out = {output, scores, scorer->MaxKeys(kMaxKeys)};
    Scratch& scratch = hold.scratch();
    RETURN_IF_ERROR(AddKeyCandidates(hold.model(), *context, *candidates, out, scratch));
    out.Fill(counts, 0);
    return {};
  });
}

int millrace_score_row_candidates(millrace_scorer* scorer, const millrace_rows* context,
                                  const millrace_rows* candidates, int output, double* scores,
                                  millrace_score_counts* counts, millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckRows(context, "context"));
    RETURN_IF_ERROR(CheckRows(candidates, "candidates"));
    RETURN_IF_ERROR(CheckOutput(output, scores, candidates->rows));
    if (context->rows != 1) {
      return Invalid("context: expected one row, found " + std::to_string(context->rows));
    }
    Hold hold(scorer->slots);
    Output out = {output, scores, scorer->MaxKeys(kMaxKeys)};
    EncodedRows encoded(hold, out);
    RETURN_IF_ERROR(encoded.Begin());
    RETURN_IF_ERROR(AsInvalid(encoded.encoder().SetContext(FieldsOf(*context, 0)), "context"));
    RETURN_IF_ERROR(encoded.UseContext());
    RETURN_IF_ERROR(ScoreFields(*candidates, encoded, [&](std::span<const millrace_field> fields) {
      return encoded.encoder().AddCandidate(fields);
    }));
    out.Fill(counts, encoded.encoder().ignored_fields());
    return {};
  });
}

int millrace_score_json_candidates(millrace_scorer* scorer, const char* context,
                                   size_t context_size, const char* candidates,
                                   size_t candidates_size, int output, double* scores,
                                   size_t capacity, size_t* num_rows, millrace_score_counts* counts,
                                   millrace_score_error* error) {
  return Guarded(error, [&]() -> Status {
    if (!num_rows) return Invalid("num_rows: expected a place, found NULL");
    *num_rows = 0;
    RETURN_IF_ERROR(CheckJson(context, context_size, "context"));
    RETURN_IF_ERROR(CheckJson(candidates, candidates_size, "candidates"));
    RETURN_IF_ERROR(CheckOutput(output, scores, capacity));
    Hold hold(scorer->slots);
    Output out = {output, scores, scorer->MaxKeys(kMaxKeys)};
    EncodedRows encoded(hold, out);
    RETURN_IF_ERROR(encoded.Begin());
    RETURN_IF_ERROR(
        AsInvalid(encoded.encoder().SetContextJson({context, context_size}), "context"));
    RETURN_IF_ERROR(encoded.UseContext());
    RETURN_IF_ERROR(ScoreLines(
        {candidates, candidates_size}, capacity, num_rows, encoded,
        [&](std::string_view line) { return encoded.encoder().AddCandidateJson(line); }));
    out.Fill(counts, 0);
    return {};
  });
}

}  // extern "C"
