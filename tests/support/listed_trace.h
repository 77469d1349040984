// SPDX-License-Identifier: Apache-2.0
// Traces as they were written, read back by a strict JSON parser (tests/profiler/list_spans.py).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "profiler/trace.h"
#include "tests/support/test_files.h"

namespace millrace::test {

struct ListedSpan {
  int tid = 0;
  std::string name;
  double begin_us = 0;
  double duration_us = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  std::string cat = {};
  std::string args = {};  // as JSON
};

struct ListedTrace {
  bool readable = false;  // by a strict JSON parser
  uint64_t dropped = 0;
  uint64_t steps = 0;
  std::string process;
  std::string clock_offset;
  std::vector<std::pair<std::string, std::string>> counters;
  std::map<std::string, std::string> flows;  // "s0x1": its time
  std::map<int, std::string> threads;
  std::vector<ListedSpan> spans;

  const ListedSpan& Find(const std::string& name) const {
    for (const ListedSpan& span : spans) {
      if (span.name == name) return span;
    }
    ADD_FAILURE() << "no span " << name;
    static const ListedSpan none;
    return none;
  }
};

inline void AddLine(const std::string& line, ListedTrace& trace) {
  std::istringstream in(line);
  std::string kind, tid, text;
  std::getline(in, kind, '\t');
  std::getline(in, tid, '\t');
  std::getline(in, text, '\t');
  if (kind == "dropped") trace.dropped = std::stoull(tid);
  if (kind == "steps") trace.steps = std::stoull(tid);
  if (kind == "offset") trace.clock_offset = tid;
  if (kind == "counter") trace.counters.emplace_back(tid, text);
  if (kind == "flow") trace.flows[tid] = text;
  if (kind == "process_name") trace.process = text;
  if (kind == "thread_name") trace.threads[std::stoi(tid)] = text;
  if (kind != "span") return;
  ListedSpan span{.tid = std::stoi(tid), .name = text};
  in >> span.begin_us >> span.duration_us >> span.rows >> span.bytes >> span.cat >> std::ws;
  std::getline(in, span.args);
  trace.spans.push_back(span);
}

class TraceTest : public testing::Test {
 protected:
  ~TraceTest() override { profiler::StopTracing(); }

  // Stops, writes and reads back.
  ListedTrace Finish(const std::string& process = "test") {
    profiler::StopTracing();
    const std::string path = folder_ / "trace.json";
    const std::string listing = folder_ / "listing";
    EXPECT_EQ(profiler::WriteTrace(path, process), "");
    const std::string command =
        "python3 " MILLRACE_SOURCE_DIR "/tests/profiler/list_spans.py " + path + " >" + listing;
    ListedTrace trace;
    trace.readable = std::system(command.c_str()) == 0;
    EXPECT_TRUE(trace.readable);
    std::ifstream in(listing);
    for (std::string line; std::getline(in, line);) AddLine(line, trace);
    return trace;
  }

  TemporaryFolder folder_;
};

}  // namespace millrace::test
