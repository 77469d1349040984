// SPDX-License-Identifier: Apache-2.0
// The table of ops: calls, time and bytes of each.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_data.h"

namespace millrace::report {

// What an op does, in a few words: "X·w" for "margins". For an op of a net's layer, the direction.
// Empty for a name that no program gives a span.
std::string OpDescription(const std::string& op);

struct OpRow {
  std::string op;           // the span's name, with " (eval)" for ops inside an evaluation
  std::string description;  // "X·w"
  std::string where;        // "worker", "worker input", "ps"
  std::string output;       // mean shape: "100 rows, 3,900 nnz"
  profiler::Cat cat = profiler::Cat::kOp;
  uint64_t calls = 0;
  double total_s = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  // Threads that run the op in parallel for one step: compute threads, input threads, connections.
  double threads = 1;
  double share_of_step = 0;  // of the time of all steps, the mean of those threads
  double bytes = 0;          // 0: unknown
  double gb_per_s = 0;
};

// Longest total first. Spans that begin before `from_ns` are left out.
std::vector<OpRow> MakeOpTable(const RunData& run, int64_t from_ns = INT64_MIN);

// As text with a header line.
std::string OpTableText(const std::vector<OpRow>& rows);

}  // namespace millrace::report
