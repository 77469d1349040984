// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/metrics.h"

#include <algorithm>
#include <cstdio>

namespace millrace::serve {
namespace {

constexpr const char* kProtocolNames[] = {"http", "thrift"};

void Add(std::atomic<uint64_t>& counter, uint64_t count) {
  counter.fetch_add(count, std::memory_order_relaxed);
}
std::string Text(const std::atomic<uint64_t>& counter) {
  return std::to_string(counter.load(std::memory_order_relaxed));
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

void AppendCounter(const char* name, const char* help, const std::atomic<uint64_t>& counter,
                   std::string& out) {
  AppendType(name, help, "counter", out);
  out += std::string(name) + " " + Text(counter) + "\n";
}

}  // namespace

void AppendType(const char* name, const char* help, const char* type, std::string& out) {
  out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void Metrics::Count(Protocol protocol, int code, std::chrono::nanoseconds time,
                    const millrace_score_counts& counts) {
  PerProtocol& mine = protocols_[static_cast<size_t>(protocol)];
  const auto at = std::find(kCodes.begin(), kCodes.end(), code);
  Add(mine.codes[std::min<size_t>(static_cast<size_t>(at - kCodes.begin()), kCodes.size() - 1)], 1);
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  Add(mine.buckets[static_cast<size_t>(bound - kBounds.begin())], 1);
  Add(mine.nanoseconds, static_cast<uint64_t>(time.count()));
  Add(rows_, counts.rows);
  Add(keys_, counts.keys);
  Add(unknown_keys_, counts.unknown_keys);
}

void Metrics::Append(std::string& out) const {
  AppendType("millrace_serve_requests_total", "requests to score, by protocol and code", "counter",
             out);
  for (size_t p = 0; p < protocols_.size(); ++p) {
    for (size_t c = 0; c < kCodes.size(); ++c) {
      out += std::string("millrace_serve_requests_total{protocol=\"") + kProtocolNames[p] +
             "\",code=\"" + std::to_string(kCodes[c]) + "\"} " + Text(protocols_[p].codes[c]) +
             "\n";
    }
  }
  AppendType("millrace_serve_request_seconds",
             "time to parse, score and answer a request, without the network", "histogram", out);
  for (size_t p = 0; p < protocols_.size(); ++p) {
    const std::string label = std::string("{protocol=\"") + kProtocolNames[p] + "\"";
    uint64_t sum = 0;
    for (size_t b = 0; b <= kBounds.size(); ++b) {
      sum += protocols_[p].buckets[b].load(std::memory_order_relaxed);
      out += "millrace_serve_request_seconds_bucket" + label + ",le=\"" +
             (b < kBounds.size() ? Number(kBounds[b]) : "+Inf") + "\"} " + std::to_string(sum) +
             "\n";
    }
    const double seconds =
        static_cast<double>(protocols_[p].nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
    char text[40];
    std::snprintf(text, sizeof text, "%.9f", seconds);
    out += "millrace_serve_request_seconds_sum" + label + "} " + text + "\n";
    out += "millrace_serve_request_seconds_count" + label + "} " + std::to_string(sum) + "\n";
  }
  AppendCounter("millrace_serve_rows_total", "rows that were scored", rows_, out);
  AppendCounter("millrace_serve_keys_total", "keys of these rows", keys_, out);
  AppendCounter("millrace_serve_unknown_keys_total", "of these, keys without a weight",
                unknown_keys_, out);
  AppendCounter("millrace_serve_model_swaps_total", "models that replaced another", swaps_, out);
  AppendCounter("millrace_serve_model_refused_total", "new models that were refused", refused_,
                out);
}

}  // namespace millrace::serve
