// SPDX-License-Identifier: Apache-2.0
#include "tools/predict/commands.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "io/batch/csr_batch.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "trainer/model/model.h"
#include "trainer/model/output_buffer.h"

namespace millrace::predict {
namespace {

using tools::Interrupted;
using tools::Progress;
using tools::ProgressOptions;

// Detects input whose keys are not those of the model. Counts the entries without a weight in a
// sample of the batches, the first and every 64th, which costs about 1 % of the scoring.
class UnknownKeys {
 public:
  void Add(const trainer::Model& model, const io::CsrBatch& batch) {
    if (batches_++ % kSampleEvery != 0) return;
    rows_ += batch.rows();
    const uint32_t entries = batch.row_begin.back();
    entries_ += entries;
    for (uint32_t i = 0; i < entries; ++i) {
      const uint32_t col = batch.cols[i];
      unknown_ += model.Weight(batch.compacted ? batch.keys[col] : col) == 0;
    }
  }

  // Empty if enough keys are known, or if too few rows were sampled to decide.
  std::string Warning() const {
    if (rows_ < kMinRows || unknown_ * 100 <= entries_ * kMaxPercent) return "";
    return std::to_string(unknown_ * 100 / entries_) +
           " % of the entries of the input have no weight in the model; likely causes: "
           "--hash_bits, --index_base or --hash_all differ from the training's, or the model is of "
           "another data set";
  }

 private:
  static constexpr uint64_t kSampleEvery = 64;
  static constexpr uint64_t kMinRows = 10;
  static constexpr uint64_t kMaxPercent = 90;  // of the entries that may be unknown

  uint64_t batches_ = 0;  // all of them; the other counts are of the sample
  uint64_t rows_ = 0;
  uint64_t entries_ = 0;
  uint64_t unknown_ = 0;
};

constexpr int kProbabilityDigits = 9;

double Probability(double margin) {
  const double e = std::exp(-std::abs(margin));
  return margin >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// Margins have the fewest digits that parse to the same float.
void AppendScore(ScoreKind kind, float margin, trainer::OutputBuffer& out) {
  char line[40];
  char* end = line + sizeof line - 1;
  end = kind == ScoreKind::kMargin ? std::to_chars(line, end, margin).ptr
                                   : std::to_chars(line, end, Probability(margin),
                                                   std::chars_format::general, kProbabilityDigits)
                                         .ptr;
  *end++ = '\n';
  out.Append({line, static_cast<size_t>(end - line)});
}

class Scorer {
 public:
  Scorer(const trainer::Model& model, const ScoreOptions& options, io::InputQueue& queue,
         trainer::OutputBuffer& out)
      : model_(model), options_(options), queue_(queue), out_(out) {
    // On a terminal the progress line would mix with the scores.
    if (options.out != "-") progress_.emplace(ProgressOptions{.work = "scoring", .unit = "rows"});
  }

  Result<ScoreSummary> Run() {
    const io::CsrBatch* batch = nullptr;
    while (true) {
      if (Interrupted()) return Cancelled("interrupted");
      ASSIGN_OR_RETURN(const bool more, queue_.Next(batch));
      if (!more) break;
      RETURN_IF_ERROR(AddBatch(*batch));
    }
    progress_.reset();
    summary_.corruption = queue_.corruption();
    summary_.warning = unknown_.Warning();
    if (options_.metrics) summary_.metrics = metrics_.Compute();
    RETURN_IF_ERROR(out_.Finish());
    return std::move(summary_);
  }

 private:
  Status AddBatch(const io::CsrBatch& batch) {
    margins_.resize(batch.rows());
    RETURN_IF_ERROR(model_.Margins(batch, scratch_, margins_));
    for (const float margin : margins_) AppendScore(options_.kind, margin, out_);
    unknown_.Add(model_, batch);
    if (options_.metrics) {
      RETURN_IF_ERROR(CheckLabels(batch.labels));
      metrics_.Add(margins_, batch.labels, batch.weights);
    }
    if (progress_) progress_->Add(batch.rows());
    summary_.rows += batch.rows();
    return {};
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
  UnknownKeys unknown_;
  ScoreSummary summary_;
};

}  // namespace

Result<ScoreKind> ScoreKindFromName(std::string_view name) {
  if (name == "probability") return ScoreKind::kProbability;
  if (name == "margin") return ScoreKind::kMargin;
  return Invalid("--output=" + std::string(name) + ": expected probability or margin");
}

Result<ScoreSummary> Score(const trainer::Model& model, const ScoreOptions& options) {
  ASSIGN_OR_RETURN(const auto queue, io::InputQueue::Open(options.input));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  return Scorer(model, options, *queue, out).Run();
}

}  // namespace millrace::predict
