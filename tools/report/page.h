// The report page: one HTML file with its style, its script and its data inside.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/report/diagnosis.h"
#include "tools/report/op_table.h"
#include "tools/report/peaks.h"
#include "tools/report/run_data.h"

namespace millrace::report {

// `data_json` as PageDataJson makes it; empty: a page that asks the server it came from for
// data.json, again and again.
std::string PageHtml(std::string_view data_json);

// The diagnosis alone: bottleneck, straggler, sentence, share, speedup_without, evidence, and for
// each worker its process, total_s, steps and the seconds of each part.
std::string DiagnosisJson(const Diagnosis& diagnosis);

// Spans go as base64 of gzip of this, for each thread of each process in the order of the JSON:
// for each span, as LEB128 numbers: begin less the previous span's begin, duration (both in ns),
// name, category, depth, number of arguments, and for each of those its name and its value
// (zigzag). At most `max_spans` of a run, each thread's first ones in proportion.
Result<std::string> PageDataJson(const RunData& run, const Diagnosis& diagnosis,
                                 const std::vector<OpRow>& ops,
                                 const std::vector<ProcessPeaks>& peaks, size_t max_spans);

}  // namespace millrace::report
