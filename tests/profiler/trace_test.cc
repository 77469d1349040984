// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "profiler/trace_buffer.h"
#include "tests/support/listed_trace.h"
#include "tests/support/test_files.h"

namespace millrace::profiler {
namespace {

using test::ListedSpan;
using test::ListedTrace;
using test::TraceTest;

TEST_F(TraceTest, EmptyTraceIsStrictJson) {
  StartTracing();
  const ListedTrace trace = Finish("a \"quoted\" \\ name");
  EXPECT_TRUE(trace.spans.empty());
  EXPECT_EQ(trace.process, "a \"quoted\" \\ name");
  EXPECT_EQ(trace.dropped, 0u);
}

TEST_F(TraceTest, OffRecordsNothing) {
  StartTracing();
  StopTracing();
  { TRACE_SCOPE("unseen"); }
  EXPECT_FALSE(TracingOn());
  EXPECT_TRUE(Finish().spans.empty());
}

TEST_F(TraceTest, ScopeThatBeganBeforeTheStartIsNotRecorded) {
  {
    TRACE_SCOPE("too early");
    StartTracing();
  }
  EXPECT_TRUE(Finish().spans.empty());
}

TEST_F(TraceTest, StartForgetsEarlierSpans) {
  StartTracing();
  { TRACE_SCOPE("old"); }
  StopTracing();
  StartTracing();
  { TRACE_SCOPE("fresh"); }
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.spans.size(), 1u);
  EXPECT_EQ(trace.spans[0].name, "fresh");
}

TEST_F(TraceTest, InnerSpansLieWithinOuterOnes) {
  StartTracing();
  {
    TRACE_SCOPE("outer");
    for (int i = 0; i < 3; ++i) {
      TRACE_SCOPE("middle");
      TRACE_SCOPE("inner");
    }
  }
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.spans.size(), 7u);
  constexpr double kRounding = 0.002;  // times are written to the nanosecond, in microseconds
  const ListedSpan& outer = trace.Find("outer");
  for (const ListedSpan& span : trace.spans) {
    EXPECT_GE(span.begin_us, outer.begin_us - kRounding);
    EXPECT_LE(span.begin_us + span.duration_us, outer.begin_us + outer.duration_us + kRounding);
    EXPECT_GE(span.begin_us, 0);
    EXPECT_GE(span.duration_us, 0);
    EXPECT_EQ(span.tid, outer.tid);
  }
}

TEST_F(TraceTest, ArgumentsArePresentOrLeftOut) {
  StartTracing();
  { TRACE_SCOPE("none"); }
  { TRACE_SCOPE("rows", 5); }
  { TRACE_SCOPE("both", 0, int64_t{1} << 40); }
  {
    TraceScope scope("late");
    scope.args().bytes = 7;
  }
  const ListedTrace trace = Finish();
  EXPECT_EQ(trace.Find("none").rows, -1);
  EXPECT_EQ(trace.Find("none").bytes, -1);
  EXPECT_EQ(trace.Find("rows").rows, 5);
  EXPECT_EQ(trace.Find("rows").bytes, -1);
  EXPECT_EQ(trace.Find("both").rows, 0);
  EXPECT_EQ(trace.Find("both").bytes, int64_t{1} << 40);
  EXPECT_EQ(trace.Find("late").rows, -1);
  EXPECT_EQ(trace.Find("late").bytes, 7);
}

TEST_F(TraceTest, SpansThatFollowEachOtherMeet) {
  {
    TraceScope off("off", Cat::kOp, {.rows = 1});
    StartTracing();
    off.Then("first", Cat::kCompute, {.rows = 2});
    off.Set("named", 1);
    off.Then("second", Cat::kNetwork, {.bytes = 3});
    StopTracing();
    off.Then("off again", Cat::kOp);
  }
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.spans.size(), 2u);
  const ListedSpan &first = trace.Find("first"), &second = trace.Find("second");
  EXPECT_NEAR(first.begin_us + first.duration_us, second.begin_us, 0.0021);
  EXPECT_EQ(first.cat, "compute");
  EXPECT_EQ(first.args, R"({"rows": 2, "named": 1})");
  EXPECT_EQ(second.cat, "network");
  EXPECT_EQ(second.args, R"({"bytes": 3})");
}

TEST_F(TraceTest, CategoriesAndNamedArgumentsAreWritten) {
  StartTracing();
  {
    TraceScope wait("wait", Cat::kNetwork, {.rows = 1, .nnz = 2, .bytes = 3, .keys = 4});
    wait.Set("server_ns", 5);
    wait.Set("server_ns", -5);
    wait.args().bytes = 6;
    wait.Set("straggler", 7);
    for (const char* name : {"third", "fourth", "fifth", "sixth", "seventh", "eighth", "too many"})
      wait.Set(name, 8);
  }
  RecordSpan("elsewhere", Cat::kDisk, 1000, 6000, {.bytes = 9});
  const ListedTrace trace = Finish();
  EXPECT_EQ(trace.Find("wait").cat, "network");
  EXPECT_EQ(trace.Find("wait").args,
            R"({"rows": 1, "nnz": 2, "bytes": 6, "keys": 4, "server_ns": -5, "straggler": 7, )"
            R"("third": 8, "fourth": 8, "fifth": 8, "sixth": 8, "seventh": 8, "eighth": 8})");
  EXPECT_EQ(trace.Find("elsewhere").cat, "disk");
  EXPECT_EQ(trace.Find("elsewhere").duration_us, 5);
}

TEST_F(TraceTest, FlowsTieSpansTogether) {
  constexpr uint64_t kId = uint64_t{0xffff} << 48 | 3;  // beyond what a double holds
  StartTracing();
  {
    TraceScope send("send", Cat::kNetwork);
    send.FlowOut(kId);
    send.FlowOut(kId + 1);
  }
  {
    TraceScope serve("serve", Cat::kServer);
    serve.FlowIn(kId);
  }
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.flows.size(), 3u);
  EXPECT_DOUBLE_EQ(std::stod(trace.flows.at("s0xffff000000000003")), trace.Find("send").begin_us);
  EXPECT_DOUBLE_EQ(std::stod(trace.flows.at("f0xffff000000000003")), trace.Find("serve").begin_us);
  EXPECT_EQ(trace.Find("send").args, "{}");
}

TEST_F(TraceTest, CountersKeepTheirOrder) {
  StartTracing();
  for (int i = 0; i < 3; ++i) TraceCounter("ready", i - 1);
  const ListedTrace trace = Finish();
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"ready", "-1"}, {"ready", "0"}, {"ready", "1"}};
  EXPECT_EQ(trace.counters, expected);
}

TEST_F(TraceTest, WindowHoldsItsStepsAlone) {
  StartTracing({.first_step = 3, .last_step = 5});
  for (int step = 0; step < 10; ++step) {
    MarkStep(static_cast<uint64_t>(step));
    TRACE_SCOPE("step", step);
  }
  MarkStep(10);
  const ListedTrace trace = Finish();
  EXPECT_EQ(trace.steps, 10u);
  ASSERT_EQ(trace.spans.size(), 3u);
  EXPECT_EQ(trace.spans.front().rows, 3);
  EXPECT_EQ(trace.spans.back().rows, 5);
  MarkStep(4);
  EXPECT_FALSE(TracingOn());
}

TEST_F(TraceTest, ProcessAndClockAreStated) {
  SetProcess("ps-1");
  SetClockOffset(-12345678901);
  StartTracing();
  const ListedTrace trace = Finish("");
  EXPECT_EQ(trace.process, "ps-1");
  EXPECT_EQ(trace.clock_offset, "-12345678901");
  SetClockOffset(0);
}

TEST_F(TraceTest, ThreadsHaveNamesAndLinesOfTheirOwn) {
  constexpr int kThreads = 8;
  constexpr int kSpans = 1000;
  StartTracing();
  {
    std::latch ready(kThreads);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&ready, t] {
        NameThread("worker " + std::to_string(t) + "\n");
        ready.arrive_and_wait();
        for (int i = 0; i < kSpans; ++i) TRACE_SCOPE("work", t);
      });
    }
  }
  const ListedTrace trace = Finish();
  std::map<int, int> spans_by_tid;
  std::map<int, int64_t> worker_of_tid;
  for (const ListedSpan& span : trace.spans) {
    ++spans_by_tid[span.tid];
    EXPECT_EQ(worker_of_tid.try_emplace(span.tid, span.rows).first->second, span.rows);
  }
  EXPECT_EQ(spans_by_tid.size(), static_cast<size_t>(kThreads));
  for (const auto& [tid, count] : spans_by_tid) EXPECT_EQ(count, kSpans) << tid;
}

TEST_F(TraceTest, NamesOfThreadsAreWritten) {
  StartTracing();
  std::jthread([] {
    NameThread("reader");
    TRACE_SCOPE("read");
  }).join();
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.threads.size(), 1u);
  EXPECT_EQ(trace.threads.begin()->second, "reader");
  EXPECT_EQ(trace.threads.begin()->first, trace.Find("read").tid);
}

TEST_F(TraceTest, WritingWhileThreadsTraceIsWhole) {
  StartTracing();
  std::jthread writer([](const std::stop_token& stop) {
    while (!stop.stop_requested()) TRACE_SCOPE("busy", 1, 2);
  });
  const std::string path = folder_ / "early.json";
  EXPECT_EQ(WriteTrace(path, "early"), "");
  writer.request_stop();
  writer.join();
  EXPECT_TRUE(Finish().readable);
}

TEST_F(TraceTest, UnwritablePathIsAnError) {
  StartTracing();
  StopTracing();
  const std::string missing = folder_ / "missing/trace.json";
  EXPECT_NE(WriteTrace(missing, "test").find("missing/trace.json"), std::string::npos);
  std::filesystem::create_directories(folder_ / "folder/inside");
  EXPECT_NE(WriteTrace(folder_ / "folder", "test"), "");
}

TEST_F(TraceTest, FailedWriteLeavesNoFileBehind) {
  StartTracing();
  StopTracing();
  std::filesystem::create_directories(folder_ / "folder/inside");
  EXPECT_NE(WriteTrace(folder_ / "folder", "test"), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "folder.tmp"));
}

}  // namespace
}  // namespace millrace::profiler
