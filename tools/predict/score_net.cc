// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "convnets/train/saved_net.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/predict/commands.h"
#include "trainer/model/output_buffer.h"

namespace millrace::predict {
namespace {

using convnets::Batch;
using convnets::SavedNet;
using tools::Interrupted;
using tools::Progress;
using tools::ProgressOptions;

class NetScorer {
 public:
  NetScorer(const NetScoreOptions& options, size_t classes, trainer::OutputBuffer& out)
      : options_(options), classes_(classes), out_(out) {
    // On a terminal the progress line would mix with the scores.
    if (options.out != "-") progress_.emplace(ProgressOptions{.work = "scoring", .unit = "images"});
  }

  Status Add(const Batch& batch, std::span<const float> scores) {
    if (Interrupted()) return Cancelled("interrupted");
    for (size_t n = 0; n < batch.images(); ++n) {
      if (options_.metrics && batch.labels[n] < 0) {
        return Corrupt("image " + std::to_string(images_ + n + 1) +
                       " of the input has no label: --metrics needs labels of all images");
      }
      AppendClass(scores.subspan(n * classes_, classes_));
    }
    images_ += batch.images();
    if (progress_) progress_->Add(batch.images());
    return {};
  }

 private:
  // The class of the highest score and its probability, p = exp(s - max s) / sum.
  void AppendClass(std::span<const float> scores) {
    const auto top = std::ranges::max_element(scores);
    double sum = 0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score - *top));
    char line[64];
    const int size = std::snprintf(
        line, sizeof line, "%lld\t%.9g\n",
        static_cast<long long>(top - scores.begin()) + options_.label_offset, 1 / sum);
    out_.Append({line, static_cast<size_t>(size)});
  }

  const NetScoreOptions& options_;
  const size_t classes_;
  trainer::OutputBuffer& out_;
  std::optional<Progress> progress_;
  uint64_t images_ = 0;
};

}  // namespace

Result<NetSummary> ScoreNet(NetScoreOptions options) {
  ASSIGN_OR_RETURN(SavedNet net, convnets::LoadNet(options.model));
  net.images.labels = io::Labels::kOptional;
  options.label_offset = net.images.label_offset;
  ASSIGN_OR_RETURN(const auto images, convnets::OpenImages(options.patterns, net.images));
  ASSIGN_OR_RETURN(const auto engine, convnets::MakeEngine("auto", net.spec, net.params,
                                                           {.threads = options.threads}));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  NetScorer scorer(options, net.spec.classes(), out);
  ASSIGN_OR_RETURN(
      const convnets::Outcome outcome,
      convnets::EvaluateImages(
          *engine, *images,
          {.input_threads = options.threads,
           .on_scores = [&](const Batch& batch,
                            std::span<const float> scores) { return scorer.Add(batch, scores); },
           .classes = net.spec.classes()}));
  RETURN_IF_ERROR(out.Finish());
  const auto size = static_cast<double>(images->size());
  return NetSummary{.images = images->size(),
                    .accuracy = static_cast<double>(outcome.correct) / size,
                    .logloss = outcome.loss / size};
}

}  // namespace millrace::predict
