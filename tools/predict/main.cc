// millrace-predict: scores records with a saved model.

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/common/help.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/predict/predict_flags.h"
#include "trainer/model/model_file.h"

namespace millrace::predict {
namespace {

using tools::Answer;
using tools::Args;
using tools::BytesText;
using tools::CatchInterrupts;
using tools::Counted;
using tools::Fail;
using tools::ParsedLine;
using tools::ParseLine;
using tools::WithCommas;

constexpr char kProgram[] = "millrace-predict";

void PrintModel(const std::string& path, const trainer::ModelInfo& info) {
  std::fprintf(stderr, "%s: %s, %s, %s, %s, %s\n", path.c_str(),
               Counted(info.weights, "weight").c_str(),
               trainer::ShapeText(info.num_features).c_str(), info.rule.c_str(),
               Counted(info.steps, "step").c_str(), Counted(info.examples, "example").c_str());
}

void PrintMetrics(const trainer::BinaryMetrics& metrics) {
  std::fprintf(stderr, "examples    %s\n", WithCommas(metrics.examples).c_str());
  for (const trainer::NamedValue& metric : trainer::NamedValues(metrics)) {
    std::fprintf(stderr, "%-11s %.6f\n", std::string(metric.name).c_str(), metric.value);
  }
  if (metrics.nan_margins > 0) {
    std::fprintf(stderr, "%s: %s examples have no finite score and are in no metric\n", kProgram,
                 WithCommas(metrics.nan_margins).c_str());
  }
}

Status RunScore(const trainer::Model& model, const Args& args) {
  const std::string used = UseTrainingFlags(args);
  if (!used.empty()) std::fprintf(stderr, "%s: as in training: %s\n", kProgram, used.c_str());
  ASSIGN_OR_RETURN(const ScoreOptions options, ScoreOptionsFromFlags(args, model.info()));
  // A partly written file must be removed. Otherwise a signal ends the program at once, even if it
  // is blocked on input.
  if (options.out != "-") CatchInterrupts();
  ASSIGN_OR_RETURN(const ScoreSummary summary, Score(model, options));
  if (summary.corruption.events > 0) {
    std::fprintf(stderr, "%s: skipped %s (%s), which have no lines\n", kProgram,
                 Counted(summary.corruption.events, "corrupt region").c_str(),
                 BytesText(summary.corruption.bytes).c_str());
  }
  if (!summary.warning.empty()) {
    std::fprintf(stderr, "%s: warning: %s\n", kProgram, summary.warning.c_str());
  }
  if (options.metrics) PrintMetrics(summary.metrics);
  return {};
}

Status Run(const Args& args) {
  RETURN_IF_ERROR(CheckFlags(args));
  const std::string path = ModelPathFromFlags();
  ASSIGN_OR_RETURN(const trainer::Model model, trainer::LoadModel(path));
  if (!IsTopRequested()) return RunScore(model, args);
  PrintModel(path, model.info());
  return WriteTopWeights(model, TopOptionsFromFlags());
}

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(PredictSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto status = Answer(PredictSpec(), line->action)) return *status;
  const Status status = Run(line->args);
  return status.ok() ? 0 : Fail(kProgram, status);
}

}  // namespace
}  // namespace millrace::predict

int main(int argc, char** argv) {
  // A closed pipe ("| head") ends the program without a message.
  std::signal(SIGPIPE, SIG_DFL);
  return millrace::tools::ProgramMain(millrace::predict::kProgram, millrace::predict::Main, argc,
                                      argv);
}
