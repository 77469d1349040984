// SPDX-License-Identifier: Apache-2.0
#include "tools/predict/commands.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"
#include "io/stream/input_files.h"
#include "sparse/score/probability.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "trainer/model/model.h"
#include "trainer/model/output_buffer.h"

namespace millrace::predict {
namespace {

using tools::Interrupted;
using tools::Progress;
using tools::ProgressOptions;

// Counts different keys, of any number, by a sample of them: those whose hash is
// below a limit, which is halved whenever the sample gets too large. Up to kMaxKeys the counts are
// exact.
class DistinctKeys {
 public:
  void Add(uint64_t key, bool known) {
    const uint64_t hash = Mix64(key);
    if (hash > limit_) return;
    size_ += Insert((hash & ~uint64_t{1}) | (known ? 1 : 0));
    if (size_ <= kMaxKeys) return;
    limit_ /= 2;
    each_ *= 2;
    const std::vector<uint64_t> all = std::exchange(slots_, std::vector<uint64_t>(kSlots));
    size_ = 0;
    for (const uint64_t entry : all) {
      if (entry != 0 && entry <= limit_) size_ += Insert(entry);
    }
  }

  double all() const { return each_ * static_cast<double>(size_); }
  double known() const {
    const auto is_known = [](uint64_t entry) { return (entry & 1) != 0; };
    return each_ * static_cast<double>(std::count_if(slots_.begin(), slots_.end(), is_known));
  }

 private:
  static constexpr size_t kMaxKeys = 1 << 16, kSlots = 4 * kMaxKeys;

  // Whether it is new.
  bool Insert(uint64_t entry) {
    size_t at = (entry >> 1) % kSlots;
    while (slots_[at] != 0 && slots_[at] != entry) at = (at + 1) % kSlots;
    return std::exchange(slots_[at], entry) == 0;
  }

  // A hash table of the keys' hashes, whose last bit says whether the key has a weight. 0: empty.
  std::vector<uint64_t> slots_ = std::vector<uint64_t>(kSlots);
  size_t size_ = 0;
  uint64_t limit_ = ~uint64_t{0};
  double each_ = 1;  // keys that a key of the sample stands for
};

// One bit per feature of a dense-index table.
class KeyBits {
 public:
  explicit KeyBits(uint64_t num_features) : words_((num_features + 63) / 64) {}
  bool Has(uint64_t key) const { return (words_[key / 64] >> (key % 64) & 1) != 0; }
  void Set(uint64_t key) { words_[key / 64] |= uint64_t{1} << (key % 64); }

 private:
  std::vector<uint64_t> words_;
};

// How much of the input has a weight in the model. Little of it has if the input's keys are not
// those of the model.
class KeyCoverage {
 public:
  // Without `all`, counts a sample of the batches, the first and every 64th, which costs about 1 %
  // of the scoring.
  KeyCoverage(const trainer::Model& model, bool all)
      : every_(all ? 1 : 64), has_weight_(Bits(model)), seen_(Bits(model)) {
    if (Bits(model) == 0) return;
    model.ForEach([&](uint64_t key, float) {
      if (key != io::kInterceptKey) has_weight_.Set(key);
    });
  }

  // `weights`: of the keys of a compacted batch.
  void Add(const io::CsrBatch& batch, std::span<const float> weights) {
    if (batches_++ % every_ != 0) return;
    rows_ += batch.rows();
    for (size_t i = 0; i < batch.keys.size(); ++i) others_.Add(batch.keys[i], weights[i] != 0);
    const uint32_t entries = batch.row_begin.back();
    for (uint32_t i = 0; i < entries; ++i) {
      const uint32_t col = batch.cols[i];
      const bool known = batch.compacted ? weights[col] != 0 : IsKnown(col);
      Count(known, batch.values.empty() ? 1.0f : batch.values[i]);
    }
    for (size_t i = 0; i < batch.unknown_keys.size(); ++i) {
      others_.Add(batch.unknown_keys[i], false);
      Count(false, batch.unknown_values[i]);
    }
  }

  double KnownKeys() const {
    return (static_cast<double>(known_keys_) + others_.known()) /
           (static_cast<double>(keys_) + others_.all());
  }
  double KnownValues() const { return known_values_ / values_; }

  // Empty if enough keys are known, or if too few rows were counted to decide.
  std::string Warning() const {
    const uint64_t unknown = entries_ - known_entries_;
    if (rows_ < kMinRows || unknown * 100 <= entries_ * kMaxPercent) return "";
    return std::to_string(unknown * 100 / entries_) +
           " % of the entries of the input have no weight in the model; likely causes: the rows "
           "are not written like those of the training (format, hash_bits, index_base), or the "
           "model is of another data set";
  }

 private:
  static constexpr uint64_t kMinRows = 10;
  static constexpr uint64_t kMaxPercent = 90;  // of the entries that may be unknown

  // Batches of wide keys are compacted: no key needs a bit.
  static uint64_t Bits(const trainer::Model& model) {
    const uint64_t num_features = model.info().num_features;
    return io::NeedsWideKeys(num_features) ? 0 : num_features;
  }

  bool IsKnown(uint64_t key) {
    const bool known = has_weight_.Has(key);
    if (!seen_.Has(key)) {
      seen_.Set(key);
      ++keys_;
      known_keys_ += known;
    }
    return known;
  }

  void Count(bool known, float value) {
    const double size = std::abs(value);
    ++entries_;
    values_ += size;
    known_entries_ += known;
    known_values_ += known ? size : 0;
  }

  const uint64_t every_;
  uint64_t batches_ = 0;  // all of them; the other counts are of the sample
  uint64_t rows_ = 0;
  uint64_t entries_ = 0, known_entries_ = 0;
  double values_ = 0, known_values_ = 0;  // sums of the entries' absolute values
  KeyBits has_weight_, seen_;             // empty if batches are compacted
  uint64_t keys_ = 0, known_keys_ = 0;    // different ones of batches that are not
  DistinctKeys others_;                   // all other keys
};

constexpr int kProbabilityDigits = 9;

class Scorer {
 public:
  Scorer(const trainer::Model& model, const ScoreOptions& options, io::InputQueue& queue,
         trainer::OutputBuffer& out)
      : model_(model),
        options_(options),
        queue_(queue),
        out_(out),
        coverage_(model, options.metrics) {
    // On a terminal the progress line would mix with the scores.
    if (options.out != "-") progress_.emplace(ProgressOptions{.work = "scoring", .unit = "rows"});
  }

  Result<ScoreSummary> Run() {
    const io::CsrBatch* batch = nullptr;
    while (true) {
      if (Interrupted()) return Cancelled("interrupted");
      if (!queue_.HasNext()) out_.Flush();
      ASSIGN_OR_RETURN(const bool more, queue_.Next(batch));
      if (!more) break;
      RETURN_IF_ERROR(AddBatch(*batch));
    }
    progress_.reset();
    summary_.corruption = queue_.corruption();
    summary_.warning = coverage_.Warning();
    summary_.known_keys = coverage_.KnownKeys();
    summary_.known_values = coverage_.KnownValues();
    if (options_.metrics) summary_.metrics = metrics_.Compute();
    RETURN_IF_ERROR(out_.Finish());
    return std::move(summary_);
  }

 private:
  Status AddBatch(const io::CsrBatch& batch) {
    margins_.resize(batch.rows());
    RETURN_IF_ERROR(model_.Margins(batch, scratch_, margins_));
    if (options_.kind == ScoreKind::kLabeled) {
      RETURN_IF_ERROR(CheckLabels(batch.labels));
      AppendLabeled(batch);
    } else {
      for (const float margin : margins_) AppendScore(options_.kind, margin, '\n', out_);
    }
    coverage_.Add(batch, scratch_);
    if (options_.metrics) {
      RETURN_IF_ERROR(CheckLabels(batch.labels));
      metrics_.Add(margins_, batch.labels, batch.weights);
    }
    if (progress_) progress_->Add(batch.rows());
    summary_.rows += batch.rows();
    return {};
  }

  void AppendLabeled(const io::CsrBatch& batch) {
    if (summary_.rows == 0) out_.Append("label,weight,margin\n");
    for (size_t i = 0; i < batch.rows(); ++i) {
      AppendScore(ScoreKind::kMargin, batch.labels[i], ',', out_);
      AppendScore(ScoreKind::kMargin, batch.weights.empty() ? 1.0f : batch.weights[i], ',', out_);
      AppendScore(ScoreKind::kMargin, margins_[i], '\n', out_);
    }
  }

  Status CheckLabels(std::span<const float> labels) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!std::isnan(labels[i])) continue;
      return Corrupt("row " + std::to_string(summary_.rows + i + 1) +
                     " of the input has no label: --metrics needs labels in all rows");
    }
    return {};
  }

  const trainer::Model& model_;
  const ScoreOptions& options_;
  io::InputQueue& queue_;
  trainer::OutputBuffer& out_;
  std::optional<Progress> progress_;
  PodVector<float> scratch_, margins_;
  trainer::BinaryMetricsSum metrics_;
  KeyCoverage coverage_;
  ScoreSummary summary_;
};

}  // namespace

Result<ScoreKind> ScoreKindFromName(std::string_view name) {
  if (name == "probability") return ScoreKind::kProbability;
  if (name == "margin") return ScoreKind::kMargin;
  if (name == "labeled") return ScoreKind::kLabeled;
  return Invalid("--output=" + std::string(name) + ": expected probability, margin or labeled");
}

// Margins have the fewest digits that parse to the same float.
void AppendScore(ScoreKind kind, float margin, char end_char, trainer::OutputBuffer& out) {
  char line[40];
  char* end = line + sizeof line - 1;
  end = kind == ScoreKind::kMargin ? std::to_chars(line, end, margin).ptr
                                   : std::to_chars(line, end, score::Probability(double{margin}),
                                                   std::chars_format::general, kProbabilityDigits)
                                         .ptr;
  *end++ = end_char;
  out.Append({line, static_cast<size_t>(end - line)});
}

Result<ScoreSummary> Score(const trainer::Model& model, const ScoreOptions& options) {
  ASSIGN_OR_RETURN(auto queue, io::InputQueue::Open(options.input));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  Result<ScoreSummary> summary = Scorer(model, options, *queue, out).Run();
  // A thread may be blocked in a read of a pipe, where no more input comes until this program has
  // answered: the queue stays until the program exits, which it does next.
  if (!summary.ok() && !io::CheckReadableAgain(options.input.files, "").ok()) {
    out.Flush();
    static_cast<void>(queue.release());
  }
  return summary;
}

}  // namespace millrace::predict
