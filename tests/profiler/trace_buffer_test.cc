// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace_buffer.h"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/trace.h"
#include "tests/support/listed_trace.h"

namespace millrace::profiler {
namespace {

using test::ListedSpan;
using test::ListedTrace;
using test::TraceTest;

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

}  // namespace
}  // namespace millrace::profiler
