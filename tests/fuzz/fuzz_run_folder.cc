// SPDX-License-Identifier: Apache-2.0
// A run folder with any files: the loaders, the diagnosis, all tables, the page and the Prometheus
// text never crash, hang or take memory without bound. What they write is JSON where it has to be,
// and has no control characters where it goes to a terminal.
//
// The input is a list of files: "@@NAME\n", the bytes of the file, "\n".
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/printable.h"
#include "tools/common/json_cursor.h"
#include "tools/dashboard/dashboard.h"
#include "tools/report/comparison.h"
#include "tools/report/page.h"

namespace millrace::report {
namespace {

constexpr uint64_t kMemoryBytes = 8 << 20;

RunLoader Loader(std::string_view input, Traces traces) {
  RunLoader loader("run", traces, kMemoryBytes);
  while (input.starts_with("@@")) {
    const size_t name_end = std::min(input.find('\n'), input.size());
    const std::string name(input.substr(2, name_end - 2));
    input.remove_prefix(std::min(name_end + 1, input.size()));
    const size_t end = std::min(input.find("\n@@"), input.size());
    if (loader.Wants(name)) loader.Add(name, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return loader;
}

void CheckJson(const std::string& text) {
  tools::JsonCursor json(text);
  json.Skip();
  CHECK(json.status().ok());
}

void CheckPrintable(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    CHECK(line == Printable(line));
    begin = end + 1;
  }
}

void Use(std::string_view input, Traces traces) {
  const Result<RunData> run = Loader(input, traces).Finish();
  if (!run.ok()) return;
  const Limits limits = {.network_bytes_per_s = 1e9, .disk_bytes_per_s = 1e9};
  const Diagnosis diagnosis = DiagnoseRun(*run, limits);
  const std::vector<OpRow> ops = MakeOpTable(*run);
  const std::vector<ProcessPeaks> peaks = MakePeaks(*run);
  CheckPrintable(OpTableText(ops));
  CheckPrintable(BreakdownText(diagnosis));
  CheckPrintable(PeaksText(peaks));
  CheckPrintable(ComparePeaksText({&*run, &*run}));
  CheckJson(DiagnosisJson(diagnosis));
  const Result<std::string> page = PageDataJson(*run, diagnosis, ops, peaks, 1000);
  CHECK(page.ok());
  CheckJson(*page);
  CHECK(PageHtml(*page, "nonce").find("</script><script") == std::string::npos);
  CheckPrintable(dashboard::PrometheusText(*run));
  const Comparison comparison =
      Compare({SummarizeRun(*run, kMemoryBytes), SummarizeRun(*run, kMemoryBytes)});
  CheckPrintable(ComparisonText(comparison));
  CheckJson(ComparisonJson(comparison));
}

// Reads the whole input as predictions, and compares them with themselves.
void UsePredictions(std::string_view input) {
  MemoryBudget budget(kMemoryBytes);
  const Result<Predictions> predictions = ReadPredictions(input, "predictions.csv", budget);
  if (!predictions.ok() || !AreComparable(*predictions, *predictions)) return;
  CHECK(LoglossDifference(*predictions, *predictions).is_tie());
  static_cast<void>(AucDifference(*predictions, *predictions));
}

}  // namespace
}  // namespace millrace::report

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  millrace::report::Use(input, millrace::report::Traces::kWhole);
  millrace::report::Use(input, millrace::report::Traces::kRecent);
  millrace::report::UsePredictions(input);
  return 0;
}
