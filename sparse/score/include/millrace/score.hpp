// SPDX-License-Identifier: Apache-2.0
// The functions of score.h for C++17: values instead of pointers, exceptions instead of codes.
//
//   millrace::Scorer scorer("model.serving");
//   millrace::Rows rows;
//   rows.Add("site", "news").Add("age", 31).Add("tags", "a").Add("tags", "b").EndRow();
//   const std::vector<double> probabilities = scorer.Score(rows);
//
// Everything that score.h says about threads, files and bits holds here.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/score.h"

namespace millrace {

class ScoreError : public std::runtime_error {
 public:
  explicit ScoreError(const millrace_score_error& error)
      : std::runtime_error(error.message), code_(error.code) {}
  int code() const { return code_; }  // MILLRACE_SCORE_INVALID, ...

 private:
  int code_;
};

enum class ScoreOutput {
  kProbability = MILLRACE_SCORE_PROBABILITY,
  kMargin = MILLRACE_SCORE_MARGIN
};

// Rows of named fields. Names and texts are views: they must live until the rows are scored.
class Rows {
 public:
  // A value of the row that is not ended yet. A field with several values is added several times.
  Rows& Add(std::string_view name, std::string_view text) {
    millrace_field& field = Append(name, MILLRACE_SCORE_TEXT);
    field.value.text.data = text.data();
    field.value.text.size = text.size();
    return *this;
  }
  Rows& Add(std::string_view name, const char* text) { return Add(name, std::string_view(text)); }
  template <typename Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  Rows& Add(std::string_view name, Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      return Add(name, number ? "true" : "false");
    } else if constexpr (std::is_integral_v<Number>) {
      static_assert(std::is_signed_v<Number> || sizeof(Number) < sizeof(int64_t),
                    "an unsigned 64-bit number may not fit: convert it to int64_t or to a text");
      Append(name, MILLRACE_SCORE_INT).value.integer = number;
    } else {
      const bool is_float = std::is_same_v<Number, float>;
      Append(name, is_float ? MILLRACE_SCORE_FLOAT : MILLRACE_SCORE_DOUBLE).value.number =
          static_cast<double>(number);
    }
    return *this;
  }
  Rows& EndRow() {
    begin_.push_back(fields_.size());
    return *this;
  }
  void Clear() {
    fields_.clear();
    begin_.assign(1, 0);
  }

  size_t size() const { return begin_.size() - 1; }
  // Valid until the next change.
  millrace_rows view() const { return {size(), begin_.data(), fields_.data()}; }

 private:
  millrace_field& Append(std::string_view name, int32_t kind) {
    fields_.emplace_back();
    millrace_field& field = fields_.back();
    field.name = name.data();
    field.name_size = name.size();
    field.kind = kind;
    return field;
  }

  std::vector<millrace_field> fields_;
  std::vector<uint64_t> begin_ = std::vector<uint64_t>(1, 0);
};

class Scorer {
 public:
  explicit Scorer(const std::string& path, uint32_t flags = 0) {
    millrace_scorer* scorer = nullptr;
    Check([&](auto* error) { return millrace_score_open(path.c_str(), flags, &scorer, error); });
    scorer_.reset(scorer);
  }
  void Swap(const std::string& path, uint32_t flags = MILLRACE_SCORE_PRELOAD) {
    Check([&](auto* error) { return millrace_score_swap(get(), path.c_str(), flags, error); });
  }
  void LimitKeys(uint64_t max_keys) { millrace_score_limit_keys(get(), max_keys); }

  // One score for each row.
  std::vector<double> Score(const Rows& rows, ScoreOutput output = ScoreOutput::kProbability,
                            millrace_score_counts* counts = nullptr) const {
    const millrace_rows view = rows.view();
    return Scores(view.rows, [&](double* scores, auto* error) {
      return millrace_score_rows(get(), &view, static_cast<int>(output), scores, counts, error);
    });
  }
  // The rows of `candidates`, each with the fields of the one row of `context`.
  std::vector<double> Score(const Rows& context, const Rows& candidates,
                            ScoreOutput output = ScoreOutput::kProbability,
                            millrace_score_counts* counts = nullptr) const {
    const millrace_rows one = context.view(), many = candidates.view();
    return Scores(many.rows, [&](double* scores, auto* error) {
      return millrace_score_row_candidates(get(), &one, &many, static_cast<int>(output), scores,
                                           counts, error);
    });
  }
  std::vector<double> Score(const millrace_keys& keys,
                            ScoreOutput output = ScoreOutput::kProbability,
                            millrace_score_counts* counts = nullptr) const {
    return Scores(keys.rows, [&](double* scores, auto* error) {
      return millrace_score_keys(get(), &keys, static_cast<int>(output), scores, counts, error);
    });
  }
  std::vector<double> Score(const millrace_keys& context, const millrace_keys& candidates,
                            ScoreOutput output = ScoreOutput::kProbability,
                            millrace_score_counts* counts = nullptr) const {
    return Scores(candidates.rows, [&](double* scores, auto* error) {
      return millrace_score_key_candidates(get(), &context, &candidates, static_cast<int>(output),
                                           scores, counts, error);
    });
  }
  // JSON, one object per line.
  std::vector<double> ScoreJson(std::string_view lines,
                                ScoreOutput output = ScoreOutput::kProbability,
                                millrace_score_counts* counts = nullptr) const {
    size_t capacity = 1, rows = 0;
    for (const char c : lines) capacity += c == '\n';
    std::vector<double> scores = Scores(capacity, [&](double* out, auto* error) {
      return millrace_score_json(get(), lines.data(), lines.size(), static_cast<int>(output), out,
                                 capacity, &rows, counts, error);
    });
    scores.resize(rows);
    return scores;
  }

  millrace_scorer* get() const { return scorer_.get(); }

 private:
  struct Close {
    void operator()(millrace_scorer* scorer) const { millrace_score_close(scorer); }
  };
  template <typename Call>
  static void Check(const Call& call) {
    millrace_score_error error;
    if (call(&error) != MILLRACE_SCORE_OK) throw ScoreError(error);
  }
  template <typename Call>
  static std::vector<double> Scores(size_t rows, const Call& call) {
    std::vector<double> scores(rows);
    Check([&](auto* error) { return call(scores.data(), error); });
    return scores;
  }

  std::unique_ptr<millrace_scorer, Close> scorer_;
};

}  // namespace millrace
