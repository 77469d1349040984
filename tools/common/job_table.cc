// SPDX-License-Identifier: Apache-2.0
#include "tools/common/job_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/progress.h"

namespace millrace::tools {
namespace {

constexpr double kTolerance = 0.05;

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string Line(const char* name, uint64_t predicted, uint64_t measured, uint64_t examples) {
  char text[200];
  const auto size = static_cast<double>(measured);
  std::snprintf(text, sizeof text,
                "wire      %-8s predicted %10s, measured %10s, %.1f bytes per example\n", name,
                BytesText(predicted).c_str(), BytesText(measured).c_str(),
                Share(size, static_cast<double>(examples)));
  std::string line = text;
  const double difference = std::abs(Share(size, static_cast<double>(predicted)) - 1);
  if (predicted > 0 && difference > kTolerance) {
    std::snprintf(
        text, sizeof text,
        "warning   bytes %s differ from the prediction by %.1f %%: calls were retried, or "
        "the wire carries other traffic\n",
        name, 100 * difference);
    line += text;
  }
  return line;
}

}  // namespace

std::string WorkerTable(std::span<const ps::WorkerStats> workers, double seconds) {
  std::string table =
      "\n    worker     examples     pushes  dropped  examples/s   blocked on  where\n";
  for (const ps::WorkerStats& w : workers) {
    char text[256];
    const double rate = Share(static_cast<double>(w.examples), seconds);
    std::snprintf(text, sizeof text, "    %6zu %12s %10s %8s %11s %10.2f s  %s%s%s\n", w.worker,
                  WithCommas(w.examples).c_str(), WithCommas(w.pushes).c_str(),
                  WithCommas(w.dropped).c_str(),
                  WithCommas(static_cast<uint64_t>(std::llround(rate))).c_str(), w.waited_s,
                  w.name.c_str(), w.state == "lost" ? ", " : "", w.state == "lost" ? "LOST" : "");
    table += text;
  }
  return table;
}

std::string LostText(std::span<const ps::WorkerStats> workers) {
  std::string names;
  uint64_t lost = 0;
  for (const ps::WorkerStats& w : workers) {
    if (w.state != "lost") continue;
    names += (lost++ == 0 ? ": worker " : ", worker ") + std::to_string(w.worker);
  }
  if (lost == 0) return "";
  return "lost " + std::to_string(lost) + " of " + Counted(workers.size(), "worker") + names +
         "; the rest of its data is not trained on";
}

std::string WireText(std::span<const ps::WireStats> wire, uint64_t own_examples) {
  ps::WireStats sum;
  for (const ps::WireStats& one : wire) sum.Add(one);
  std::string text = Line("sent", sum.predicted_sent, sum.sent, own_examples);
  text += Line("received", sum.predicted_received, sum.received, own_examples);
  char times[200];
  std::snprintf(
      times, sizeof times,
      "          %s exchanges, waited %.2f s for replies: %.2f s for other workers, %.2f s "
      "for the work of the servers\n",
      WithCommas(sum.exchanges).c_str(), static_cast<double>(sum.wait_ns) * 1e-9,
      static_cast<double>(sum.barrier_ns) * 1e-9, static_cast<double>(sum.server_ns) * 1e-9);
  text += times;
  if (sum.repeats + sum.reconnects == 0) return text;
  text += "          " + WithCommas(sum.repeats) + " calls were retried, " +
          WithCommas(sum.reconnects) + " connections were reopened";
  if (sum.corrupt > 0) text += ", " + WithCommas(sum.corrupt) + " replies were corrupt";
  return text + "\n";
}

}  // namespace millrace::tools
