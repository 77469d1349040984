// SPDX-License-Identifier: Apache-2.0
#include "tools/report/op_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "tools/common/progress.h"
#include "tools/common/text_table.h"

namespace millrace::report {
namespace {

using tools::BytesText;
using tools::TextTable;
using tools::WithCommas;

using profiler::Cat;

constexpr std::pair<const char*, const char*> kDescriptions[] = {
    // A step.
    {"step", "a whole step"},
    {"margins", "X·w"},
    {"loss_residuals", "loss and residuals"},
    {"gradient", "Xᵀ·e"},
    {"update", "optimizer step on the weights"},
    {"pull", "gets the weights of the keys"},
    {"push", "updates the weights of the keys"},
    {"gather_factors", "copies the factors of the batch's features"},
    {"factor_margins", "pairwise interactions of the rows"},
    {"factor_gradient", "gradient of the factors"},
    {"factor_update", "optimizer step on the factors"},
    // Input.
    {"input_wait", "waiting for a batch"},
    {"read_block", "reads bytes of files"},
    {"remote_read", "receives bytes of remote files"},
    {"decompress", "decompresses gzip, zlib or zstd"},
    {"read_compressed", "reads compressed bytes"},
    {"draw", "draws rows from the shuffle buffer"},
    {"frame_crc", "splits records, checks CRCs"},
    {"start_query", "DuckDB runs a query up to its first rows"},
    {"fetch_chunk", "DuckDB computes a chunk of a table"},
    {"table_rows", "copies a chunk's columns to rows"},
    {"decode", "decodes Examples to CSR"},
    {"compact", "sorts and deduplicates keys"},
    {"cache_rows", "keeps decoded rows in memory"},
    {"make batch", "collects the images of a batch"},
    {"decode image", "decodes JPEG or PNG to pixels"},
    // Between workers and servers.
    {"exchange_send", "sends gradient and keys"},
    {"exchange_wait", "waiting for the reply"},
    {"push_dense", "sends the gradients of a block"},
    {"pull_dense", "receives the weights of a block"},
    {"dense_wait", "waiting for blocks"},
    {"serve_exchange", "one whole request"},
    {"decode_request", "decodes keys and gradients"},
    {"barrier_wait", "waiting for the slowest worker"},
    {"aggregate", "sum of the workers' gradients"},
    {"apply", "optimizer step on the shard's weights"},
    {"gather", "collects the weights of the keys"},
    {"encode_reply", "encodes weights"},
    {"serve_push_dense", "receives the gradients of a block"},
    {"serve_pull_dense", "sends the weights of a block"},
    // Evaluation, checkpoints, models.
    {"evaluate", "a whole evaluation"},
    {"read_sample", "reads the first rows"},
    {"try_rates", "tries rates on the first rows"},
    {"read_test_set", "prefetches the test data"},
    {"score_test_set", "evaluation in parallel to training"},
    {"check_test_keys", "looks up test keys"},
    {"checkpoint", "a whole checkpoint"},
    {"save_checkpoint", "writes state to its file"},
    {"load_checkpoint", "reads state from its file"},
    {"write_state_block", "writes a block of a state file"},
    {"read_state_block", "reads a block of a state file"},
    {"save_model", "writes the model file"},
    {"load_model", "reads a model file"},
    {"save net", "writes the net's file"},
    {"load net", "reads a net's file"},
    // Nets, except their layers.
    {"pack images", "interleaves images for SIMD"},
    {"copy images", "copies images to the net's input"},
    {"add up gradients", "sums the gradients of the threads"},
};

constexpr std::pair<const char*, const char*> kDirections[] = {
    {" forward", "output of the layer"},
    {" backward weights", "gradient of its weights"},
    {" backward data", "gradient of its input"},
    {" backward", "gradients of weights and input"},
};

struct Sum {
  Cat cat = Cat::kOp;
  const TracedThread* thread = nullptr;  // the thread that was added last
  std::vector<double> thread_ns;         // each thread's part of total_ns
  std::vector<float> durations_us;
  double total_ns = 0;
  double bytes = 0;
  std::map<uint32_t, double> args;
};

// (op, inside an evaluation, where)
using Key = std::tuple<uint32_t, bool, std::string>;

// Threads that compute or send for the training thread count as "worker", input threads separately.
std::string WhereOf(const ProcessData& process, const TracedThread& thread) {
  if (process.is_server()) return "ps";
  const bool trains = std::any_of(thread.spans.begin(), thread.spans.end(), [](const Span& span) {
    return span.cat != Cat::kInput && span.cat != Cat::kDisk && span.cat != Cat::kOp;
  });
  return trains ? "worker" : "worker input";
}

// When the training thread evaluated the model, in order.
std::vector<std::pair<int64_t, int64_t>> EvaluationsOf(const RunData& run,
                                                       const ProcessData& process) {
  std::vector<std::pair<int64_t, int64_t>> evaluations;
  const uint32_t step = run.names.Find("step");
  for (const TracedThread& thread : process.threads) {
    const bool trains = std::any_of(thread.spans.begin(), thread.spans.end(),
                                    [&](const Span& span) { return span.name == step; });
    if (!trains) continue;
    for (const Span& span : thread.spans) {
      if (span.cat == Cat::kEvaluation) evaluations.emplace_back(span.begin_ns, span.end_ns);
    }
  }
  std::sort(evaluations.begin(), evaluations.end());
  return evaluations;
}

bool IsWithin(const std::vector<std::pair<int64_t, int64_t>>& evaluations, int64_t time_ns) {
  const auto after =
      std::upper_bound(evaluations.begin(), evaluations.end(), std::pair(time_ns, INT64_MAX));
  return after != evaluations.begin() && time_ns < std::prev(after)->second;
}

// Computing by other threads during an evaluation belongs to the evaluation.
void AddThread(const RunData& run, const ProcessData& process, const TracedThread& thread,
               const std::vector<std::pair<int64_t, int64_t>>& evaluations, int64_t from_ns,
               std::map<Key, Sum>& sums) {
  const std::string where = WhereOf(process, thread);
  const uint32_t bytes = run.names.Find("bytes");
  const uint32_t step = run.names.Find("step"), rows = run.names.Find("rows");
  const bool is_for_evaluation = thread.name.starts_with("evaluat");
  int64_t evaluation_end = INT64_MIN;
  for (const Span& span : thread.spans) {
    if (span.begin_ns < from_ns) continue;
    if (span.name == step && process.Arg(span, rows, -1) < 0)
      continue;  // found the end of the data
    const bool evaluating = span.begin_ns < evaluation_end ||
                            (span.cat == Cat::kCompute && IsWithin(evaluations, span.begin_ns)) ||
                            (is_for_evaluation && span.cat != Cat::kEvaluation);
    if (span.cat == Cat::kEvaluation) evaluation_end = std::max(evaluation_end, span.end_ns);
    Sum& sum = sums[{span.name, evaluating, where}];
    if (std::exchange(sum.thread, &thread) != &thread) sum.thread_ns.push_back(0);
    sum.thread_ns.back() += static_cast<double>(span.duration_ns());
    sum.cat = span.cat;
    sum.durations_us.push_back(static_cast<float>(span.duration_ns()) * 1e-3f);
    sum.total_ns += static_cast<double>(span.duration_ns());
    for (uint32_t i = 0; i < span.num_args; ++i) {
      const SpanArg& arg = process.args[span.first_arg + i];
      const auto value = static_cast<double>(arg.value);
      (arg.name == bytes ? sum.bytes : sum.args[arg.name]) += value;
    }
  }
}

// Threads that do a relevant part of the op, more than a call or two.
double ThreadsIn(const Sum& sum) {
  constexpr double kPart = 0.1;  // of the busiest thread's time
  const double most = *std::max_element(sum.thread_ns.begin(), sum.thread_ns.end());
  return static_cast<double>(std::count_if(sum.thread_ns.begin(), sum.thread_ns.end(),
                                           [&](double ns) { return ns >= kPart * most; }));
}

double Quantile(std::vector<float>& values, double q) {
  if (values.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::max(1.0, std::ceil(q * static_cast<double>(values.size())))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(rank), values.end());
  return static_cast<double>(values[rank]);
}

std::string OutputOf(const RunData& run, const Sum& sum, double calls) {
  std::string text;
  for (const char* name : {"rows", "nnz", "keys"}) {
    const auto found = sum.args.find(run.names.Find(name));
    if (found == sum.args.end()) continue;
    text +=
        (text.empty() ? "" : ", ") + WithCommas(ToCount(found->second / calls + 0.5)) + " " + name;
  }
  return text;
}

// The time of all steps, and the number of threads that run steps.
struct Steps {
  double total_ns = 0;
  double threads = 0;
};

OpRow RowOf(const RunData& run, const Key& key, Sum& sum, const Steps& steps) {
  const auto& [name, evaluating, where] = key;
  OpRow row;
  row.op = run.names[name] + (evaluating ? " (eval)" : "");
  row.description = OpDescription(run.names[name]);
  const bool sparse = sum.args.contains(run.names.Find("nnz"));
  if (sparse && run.names[name] == "update") row.description = "Xᵀ·e into the weights";
  row.where = where;
  row.cat = sum.cat;
  row.calls = sum.durations_us.size();
  const auto calls = static_cast<double>(row.calls);
  row.output = OutputOf(run, sum, calls);
  row.total_s = sum.total_ns * 1e-9;
  row.mean_us = sum.total_ns * 1e-3 / calls;
  row.p50_us = Quantile(sum.durations_us, 0.5);
  row.p99_us = Quantile(sum.durations_us, 0.99);
  if (steps.threads > 0) row.threads = std::max(1.0, ThreadsIn(sum) / steps.threads);
  if (steps.total_ns > 0) row.share_of_step = sum.total_ns / row.threads / steps.total_ns;
  row.bytes = sum.bytes;
  row.gb_per_s = sum.total_ns > 0 ? sum.bytes / sum.total_ns : 0;
  return row;
}

std::string Number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string OpDescription(const std::string& op) {
  for (const auto& [name, description] : kDescriptions) {
    if (op == name) return description;
  }
  for (const auto& [direction, description] : kDirections) {
    if (op.ends_with(direction)) return description;
  }
  return "";
}

std::vector<OpRow> MakeOpTable(const RunData& run, int64_t from_ns) {
  std::map<Key, Sum> sums;
  for (const ProcessData& process : run.processes) {
    const auto evaluations = EvaluationsOf(run, process);
    for (const TracedThread& thread : process.threads) {
      AddThread(run, process, thread, evaluations, from_ns, sums);
    }
  }
  Steps steps;
  for (const auto& [key, sum] : sums) {
    if (std::get<0>(key) != run.names.Find("step")) continue;
    steps.total_ns += sum.total_ns;
    steps.threads += ThreadsIn(sum);
  }
  std::vector<OpRow> rows;
  for (auto& [key, sum] : sums) rows.push_back(RowOf(run, key, sum, steps));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OpRow& a, const OpRow& b) { return a.total_s > b.total_s; });
  return rows;
}

std::string OpTableText(const std::vector<OpRow>& rows) {
  TextTable table({{"op"},
                   {"description"},
                   {"where"},
                   {"output (mean)"},
                   {"calls", true},
                   {"threads", true},
                   {"total ms", true},
                   {"mean us", true},
                   {"p50 us", true},
                   {"p99 us", true},
                   {"of step", true},
                   {"bytes", true},
                   {"GB/s", true}});
  for (const OpRow& row : rows) {
    table.Add({row.op, row.description, row.where, row.output, WithCommas(row.calls),
               Number("%.3g", row.threads), Number("%.2f", row.total_s * 1e3),
               Number("%.2f", row.mean_us), Number("%.2f", row.p50_us), Number("%.2f", row.p99_us),
               Number("%.1f %%", row.share_of_step * 100),
               row.bytes > 0 ? BytesText(ToCount(row.bytes)) : "",
               row.bytes > 0 ? Number("%.3f", row.gb_per_s) : ""});
  }
  return table.Text();
}

}  // namespace millrace::report
