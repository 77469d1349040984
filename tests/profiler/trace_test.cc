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
#include "tests/test_files.h"

namespace millrace::profiler {
namespace {

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

void AddLine(const std::string& line, ListedTrace& trace) {
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
  ~TraceTest() override { StopTracing(); }

  // Stops, writes and reads back.
  ListedTrace Finish(const std::string& process = "test") {
    StopTracing();
    const std::string path = folder_ / "trace.json";
    const std::string listing = folder_ / "listing";
    EXPECT_EQ(WriteTrace(path, process), "");
    const std::string command =
        "python3 " MILLRACE_SOURCE_DIR "/tests/profiler/list_spans.py " + path + " >" + listing;
    ListedTrace trace;
    trace.readable = std::system(command.c_str()) == 0;
    EXPECT_TRUE(trace.readable);
    std::ifstream in(listing);
    for (std::string line; std::getline(in, line);) AddLine(line, trace);
    return trace;
  }

  test::TemporaryFolder folder_;
};

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

TEST_F(TraceTest, LongNamesAndLargeValuesAreKept) {
  const std::string built = std::string("built at run time, ") + std::string(100, 'x');
  StartTracing();
  for (const int64_t value : {int64_t{0}, int64_t{UINT32_MAX}, int64_t{UINT32_MAX} + 1, int64_t{-1},
                              INT64_MIN, INT64_MAX}) {
    for (const char* name : {"literal", built.c_str()}) {
      TraceScope span(name);
      span.Set("first", value);
      span.Set("second", 7);
    }
  }
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.spans.size(), 12u);
  const char* const values[] = {"0",  "4294967295",           "4294967296",
                                "-1", "-9223372036854775808", "9223372036854775807"};
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    EXPECT_EQ(trace.spans[i].name, i % 2 == 0 ? "literal" : built);
    const std::string expected = std::string("\"first\": ") + values[i / 2];
    EXPECT_NE(trace.spans[i].args.find(expected), std::string::npos) << trace.spans[i].args;
    EXPECT_NE(trace.spans[i].args.find("\"second\": 7"), std::string::npos);
  }
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

// A span that lasts, or lies before its neighbour, for longer than a narrow event can tell; and
// chunks, each of which begins anew.
TEST_F(TraceTest, TimesFarApartAreKept) {
  constexpr int64_t kFar = int64_t{1} << 33;  // ticks
  const int64_t now = internal::NowTicks();
  StartTracing();
  const internal::NamedArgs none;
  const auto append = [&](const char* name, int64_t begin, int64_t end) {
    internal::Append(name, Cat::kOp, begin, end, {.rows = 1}, none);
  };
  append("now", now, now + 1000);
  append("long", now, now + kFar);
  append("far", now + kFar, now + kFar + 1000);
  append("back", now + 10, now + 1010);
  for (int i = 0; i < 5000; ++i) append("many", now + 1000 * i, now + 1000 * i + 500);
  const ListedTrace trace = Finish();
  ASSERT_EQ(trace.spans.size(), 5004u);
  const double begin_us = trace.Find("now").begin_us, short_us = trace.Find("now").duration_us;
  const double far_us = trace.Find("long").duration_us;
  EXPECT_GT(far_us, 1e6 * short_us);
  EXPECT_NEAR(trace.Find("far").begin_us, begin_us + far_us, 0.01 * far_us);
  EXPECT_NEAR(trace.Find("far").duration_us, short_us, 0.01);
  EXPECT_NEAR(trace.Find("back").begin_us, begin_us + short_us / 100, 0.01);
  for (int i = 0; i < 5000; ++i) {
    const ListedSpan& span = trace.spans[static_cast<size_t>(4 + i)];
    ASSERT_NEAR(span.begin_us, begin_us + i * short_us, 0.01 + 0.01 * i);
    ASSERT_EQ(span.rows, 1);
  }
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

TEST_F(TraceTest, MemoryIsBoundedOverAllThreads) {
  constexpr size_t kPiece = 64 << 10;
  StartTracing({.max_bytes = 3 * kPiece});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 10000; ++i) TRACE_SCOPE("many");
    });
  }
  threads.clear();
  const ListedTrace trace = Finish();
  // A piece is one thread's, and full when the largest event would not fit into it.
  constexpr size_t kSpansPerPiece = (kPiece - sizeof(uint32_t) * internal::kMaxWords) / 16;
  EXPECT_LE(trace.spans.size(), 3 * kPiece / 16);
  EXPECT_GE(trace.spans.size(), 2 * (kSpansPerPiece - 1));
  EXPECT_EQ(trace.spans.size() + trace.dropped, 40000u);
}

TEST_F(TraceTest, ThreadsThatComeAndGoShareMemoryAndALine) {
  StartTracing({.max_bytes = 2 * (64 << 10)});
  for (int t = 0; t < 200; ++t) {
    std::jthread([&] {
      NameThread(t % 2 == 0 ? "even" : "odd");
      TRACE_SCOPE("short", t);
    }).join();
  }
  const ListedTrace trace = Finish();
  EXPECT_EQ(trace.dropped, 0u);
  EXPECT_EQ(trace.spans.size(), 200u);
  ASSERT_EQ(trace.threads.size(), 2u);
  for (const ListedSpan& span : trace.spans) {
    EXPECT_EQ(trace.threads.at(span.tid), span.rows % 2 == 0 ? "even" : "odd");
  }
}

TEST_F(TraceTest, ThreadsThatLiveAtTheSameTimeDoNotShareALine) {
  StartTracing();
  std::latch named(2);
  const auto work = [&] {
    NameThread("twin");
    named.arrive_and_wait();
    TRACE_SCOPE("work");
  };
  std::jthread one(work), other(work);
  one.join();
  other.join();
  EXPECT_EQ(Finish().threads.size(), 2u);
}

TEST_F(TraceTest, MemoryOfATraceServesTheNext) {
  internal::ChunkPool pool;
  std::vector<internal::Chunk*> chunks;
  for (int i = 0; i < 40; ++i) chunks.push_back(pool.Take());  // more than a slab
  std::set<internal::Chunk*> first(chunks.begin(), chunks.end());
  EXPECT_EQ(first.size(), chunks.size());
  for (internal::Chunk* chunk : chunks) chunk->used = 7;
  pool.GiveBack(chunks);
  for (int i = 0; i < 40; ++i) {
    internal::Chunk* chunk = pool.Take();
    EXPECT_EQ(chunk->used, 0u);
    first.erase(chunk);
  }
  EXPECT_TRUE(first.empty());
}

TEST_F(TraceTest, FullBuffersCountWhatTheyDrop) {
  StartTracing({.max_spans_per_thread = 10});
  for (int i = 0; i < 25; ++i) TRACE_SCOPE("many");
  std::jthread([] {
    for (int i = 0; i < 12; ++i) TRACE_SCOPE("more");
  }).join();
  const ListedTrace trace = Finish();
  EXPECT_EQ(trace.spans.size(), 20u);
  EXPECT_EQ(trace.dropped, 17u);
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
