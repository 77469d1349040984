#include "tools/report/op_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "tools/common/progress.h"
#include "tools/report/text_table.h"

namespace millrace::report {
namespace {

using tools::BytesText;
using tools::WithCommas;

using profiler::Cat;

constexpr std::pair<const char*, const char*> kDescriptions[] = {
    // A step.
    {"step", "a whole step"},
    {"margins", "X·w"},
    {"loss_residuals", "sigmoid, error"},
    {"gradient", "Xᵀ·e"},
    {"update", "the rule on the weights"},
    {"pull", "weights of the keys"},
    {"push", "update of the keys"},
    // Input.
    {"input_wait", "waiting for a batch"},
    {"read_block", "bytes of files"},
    {"frame_crc", "records and checksums"},
    {"decode", "Examples to CSR"},
    {"compact", "sorted unique keys"},
    {"cache_rows", "decoded rows kept in memory"},
    {"make batch", "images of a batch"},
    {"decode image", "JPEG or PNG to pixels"},
    // Between workers and servers.
    {"exchange_send", "gradient and keys out"},
    {"exchange_wait", "waiting for the reply"},
    {"push_dense", "gradients of a block out"},
    {"pull_dense", "weights of a block in"},
    {"dense_wait", "waiting for blocks"},
    {"serve_exchange", "one request, whole"},
    {"decode_request", "bytes to keys and gradients"},
    {"barrier_wait", "waiting for the last worker"},
    {"aggregate", "workers' gradients, in order"},
    {"apply", "the rule on the shard's weights"},
    {"gather", "weights of the keys"},
    {"touched_weights", "those that this push changes"},
    {"look_ahead", "after the answer: for the next one"},
    {"decode_next", "bytes to the next keys"},
    {"overlap", "next keys that the push will change"},
    {"encode_reply", "weights to bytes"},
    {"serve_push_dense", "takes a block's gradients"},
    {"serve_pull_dense", "gives a block's weights"},
    // Tests, checkpoints, models.
    {"test", "a whole test"},
    {"read_test", "test data, read ahead"},
    {"score_test", "a test beside the training"},
    {"checkpoint", "a whole checkpoint"},
    {"save_checkpoint", "state to its file"},
    {"load_checkpoint", "state from its file"},
    {"write_state_block", "a part of a state file"},
    {"read_state_block", "a part of a state file"},
    {"save_model", "the model to its file"},
    {"load_model", "a model from its file"},
    {"save net", "the net to its file"},
    {"load net", "a net from its file"},
    // Nets, beside their layers.
    {"pack images", "images side by side for SIMD"},
    {"copy images", "images into the net's input"},
    {"add up gradients", "of the threads"},
};

constexpr std::pair<const char*, const char*> kDirections[] = {
    {" forward", "the layer's output"},
    {" backward weights", "gradient of its weights"},
    {" backward data", "gradient of its input"},
    {" backward", "gradients of weights and input"},
};

struct Sum {
  Cat cat = Cat::kOp;
  const TracedThread* thread = nullptr;  // that was added last
  std::vector<double> thread_ns;         // each thread's part of total_ns
  std::vector<float> durations_us;
  double total_ns = 0;
  double bytes = 0;
  std::map<uint32_t, double> args;
};

// (op, inside a test, where)
using Key = std::tuple<uint32_t, bool, std::string>;

// Threads that compute or send for the training thread count with it, input threads apart.
std::string WhereOf(const ProcessData& process, const TracedThread& thread) {
  if (process.is_server()) return "ps";
  const bool trains = std::any_of(thread.spans.begin(), thread.spans.end(), [](const Span& span) {
    return span.cat != Cat::kInput && span.cat != Cat::kDisk && span.cat != Cat::kOp;
  });
  return trains ? "worker" : "worker input";
}

// When the training thread tested, in order.
std::vector<std::pair<int64_t, int64_t>> TestsOf(const RunData& run, const ProcessData& process) {
  std::vector<std::pair<int64_t, int64_t>> tests;
  const uint32_t step = run.names.Find("step");
  for (const TracedThread& thread : process.threads) {
    const bool trains = std::any_of(thread.spans.begin(), thread.spans.end(),
                                    [&](const Span& span) { return span.name == step; });
    if (!trains) continue;
    for (const Span& span : thread.spans) {
      if (span.cat == Cat::kEvaluation) tests.emplace_back(span.begin_ns, span.end_ns);
    }
  }
  std::sort(tests.begin(), tests.end());
  return tests;
}

bool IsWithin(const std::vector<std::pair<int64_t, int64_t>>& tests, int64_t time_ns) {
  const auto after = std::upper_bound(tests.begin(), tests.end(), std::pair(time_ns, INT64_MAX));
  return after != tests.begin() && time_ns < std::prev(after)->second;
}

// What threads of the training thread compute during a test belongs to it.
void AddThread(const RunData& run, const ProcessData& process, const TracedThread& thread,
               const std::vector<std::pair<int64_t, int64_t>>& tests, int64_t from_ns,
               std::map<Key, Sum>& sums) {
  const std::string where = WhereOf(process, thread);
  const uint32_t bytes = run.names.Find("bytes");
  const uint32_t step = run.names.Find("step"), rows = run.names.Find("rows");
  const bool is_for_tests = thread.name.starts_with("test");
  int64_t test_ends = INT64_MIN;
  for (const Span& span : thread.spans) {
    if (span.begin_ns < from_ns) continue;
    if (span.name == step && process.Arg(span, rows, -1) < 0) continue;  // found no more data
    const bool testing = span.begin_ns < test_ends ||
                         (span.cat == Cat::kCompute && IsWithin(tests, span.begin_ns)) ||
                         (is_for_tests && span.cat != Cat::kEvaluation);
    if (span.cat == Cat::kEvaluation) test_ends = std::max(test_ends, span.end_ns);
    Sum& sum = sums[{span.name, testing, where}];
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

// Threads that have a real part in it, not just a call or two.
double ThreadsIn(const Sum& sum) {
  constexpr double kPart = 0.1;  // of what the busiest has
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
    text += (text.empty() ? "" : ", ") +
            WithCommas(static_cast<uint64_t>(found->second / calls + 0.5)) + " " + name;
  }
  return text;
}

// All steps, and how many threads went through steps.
struct Steps {
  double total_ns = 0;
  double threads = 0;
};

OpRow RowOf(const RunData& run, const Key& key, Sum& sum, const Steps& steps) {
  const auto& [name, testing, where] = key;
  OpRow row;
  row.op = run.names[name] + (testing ? " (test)" : "");
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
  for (const auto& [way, description] : kDirections) {
    if (op.ends_with(way)) return description;
  }
  return "";
}

std::vector<OpRow> MakeOpTable(const RunData& run, int64_t from_ns) {
  std::map<Key, Sum> sums;
  for (const ProcessData& process : run.processes) {
    const auto tests = TestsOf(run, process);
    for (const TracedThread& thread : process.threads) {
      AddThread(run, process, thread, tests, from_ns, sums);
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
               row.bytes > 0 ? BytesText(static_cast<uint64_t>(row.bytes)) : "",
               row.bytes > 0 ? Number("%.3f", row.gb_per_s) : ""});
  }
  return table.Text();
}

}  // namespace millrace::report
