// What the report page shows, as JSON.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/report/diagnosis.h"
#include "tools/report/op_table.h"
#include "tools/report/peaks.h"
#include "tools/report/run_data.h"

namespace millrace::tools {

// The verdict alone: bottleneck, straggler, sentence, share, speedup_without, evidence, and for
// each worker its process, total_s, steps and the seconds of each part.
std::string VerdictJson(const Verdict& verdict);

// Spans go as base64 of gzip of this, for each thread of each process in the order of the JSON:
// for each span, as LEB128 numbers: begin less the previous span's begin, duration (both in ns),
// name, category, depth, number of arguments, and for each of those its name and its value
// (zigzag). At most `max_spans` of a run, each thread's first ones in proportion.
Result<std::string> PageDataJson(const RunData& run, const Verdict& verdict,
                                 const std::vector<OpRow>& ops,
                                 const std::vector<ProcessPeaks>& peaks, size_t max_spans);

}  // namespace millrace::tools
