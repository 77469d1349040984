#include "tools/predict/score.h"

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tools/common/interrupt.h"
#include "tools/common/progress.h"
#include "tools/predict/unknown_keys.h"
#include "trainer/model/output_buffer.h"

namespace millrace::tools {
namespace {

constexpr int kProbabilityDigits = 9;

double Probability(double margin) {
  const double e = std::exp(-std::abs(margin));
  return margin >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// Margins with the shortest digits that give the same float again.
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
    // On a terminal the line would run into the scores.
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
    unknown_.Look(model_, batch);
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

}  // namespace millrace::tools
