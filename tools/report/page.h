// SPDX-License-Identifier: Apache-2.0
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

// `data_json` comes from PageDataJson. Empty: a live page, which fetches data.json from its server
// every second. `nonce` comes from NewNonce: the page's own script and style have it, and the
// browser runs nothing else.
std::string PageHtml(std::string_view data_json, const std::string& nonce);

// A page of several runs. `data_json` comes from ComparisonJson.
std::string ComparePageHtml(std::string_view data_json, const std::string& nonce);

// A random text for one page.
std::string NewNonce();

// The Content-Security-Policy of the page, which it also states itself.
std::string ContentPolicy(const std::string& nonce);

// Only the diagnosis: bottleneck, straggler, sentence, share, speedup_without (of the cause),
// cause, speedups (of all causes), advice (text and gain), evidence, and for each worker its
// process, total_s, steps and the seconds of each part.
std::string DiagnosisJson(const Diagnosis& diagnosis);

// All that the page shows. "spans" is base64 of gzip of the spans of all threads, in the order of
// the JSON. A span is a list of LEB128 numbers: begin minus the begin of the previous span,
// duration (both in ns), name, category, depth, number of arguments, then name and value (zigzag)
// of each argument. Of a run with more than `max_spans`, each thread has its first ones in
// proportion, and each process at most as many of its first counters and flows.
Result<std::string> PageDataJson(const RunData& run, const Diagnosis& diagnosis,
                                 const std::vector<OpRow>& ops,
                                 const std::vector<ProcessPeaks>& peaks, size_t max_spans);

}  // namespace millrace::report
