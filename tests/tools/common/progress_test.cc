// SPDX-License-Identifier: Apache-2.0
#include "tools/common/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace millrace::tools {
namespace {

// Runs `steps` of `step_s` seconds and 1,000 units each and returns what was printed.
std::string Printed(bool terminal, int steps, double step_s, uint64_t total, uint64_t first = 0,
                    bool hide = false) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  double now_s = 100;
  {
    Progress progress({.work = "reading",
                       .unit = "rows",
                       .total = total,
                       .first = first,
                       .out = out,
                       .now_s = [&] { return now_s; },
                       .is_terminal = terminal ? 1 : 0});
    for (int i = 0; i < steps; ++i) {
      now_s += step_s;
      progress.Add(1000, hide ? ", hidden" : "");
      if (hide) progress.Hide();
    }
  }
  std::fclose(out);
  const std::string printed(text, size);
  std::free(text);
  return printed;
}

TEST(Progress, ShortWorkPrintsNothing) {
  EXPECT_EQ(Printed(true, 9, 0.1, 10'000), "");
  EXPECT_EQ(Printed(false, 90, 0.1, 100'000), "");
}

TEST(Progress, TerminalLineIsRewrittenAndRemoved) {
  EXPECT_EQ(Printed(true, 2, 1, 4000),
            "\rreading: 1,000/4,000 (25%) rows, 1,000/s, 3.00 s left\x1b[K"
            "\rreading: 2,000/4,000 (50%) rows, 1,000/s, 2.00 s left\x1b[K"
            "\r\x1b[K");
}

TEST(Progress, PlainLinesComeEveryTenSeconds) {
  EXPECT_EQ(Printed(false, 25, 1, 0),
            "reading: 10,000 rows, 1,000/s\nreading: 20,000 rows, 1,000/s\n");
}

TEST(Progress, MoreThanTheTotalHasNoTimeLeft) {
  EXPECT_EQ(Printed(false, 10, 1, 5000),
            "reading: 10,000/5,000 (200%) rows, 1,000/s, 0.00 s left\n");
}

TEST(Progress, EarlierUnitsDoNotCountForTheRate) {
  EXPECT_EQ(Printed(false, 10, 1, 30'000, 10'000),
            "reading: 20,000/30,000 (67%) rows, 1,000/s, 10.0 s left\n");
}

TEST(Progress, HiddenLineIsRemovedFromTheTerminal) {
  EXPECT_EQ(Printed(true, 2, 1, 0, 0, true),
            "\rreading: 1,000 rows, 1,000/s, hidden\x1b[K\r\x1b[K"
            "\rreading: 2,000 rows, 1,000/s, hidden\x1b[K\r\x1b[K");
}

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(Counted(1, "step"), "1 step");
  EXPECT_EQ(Counted(0, "step"), "0 steps");
  EXPECT_EQ(Counted(2000, "step"), "2,000 steps");
}

TEST(WithCommas, GroupsByThree) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(33'762'578), "33,762,578");
  EXPECT_EQ(WithCommas(~uint64_t{0}), "18,446,744,073,709,551,615");
}

TEST(DurationText, ChoosesTheUnit) {
  EXPECT_EQ(DurationText(0.42), "0.42 s");
  EXPECT_EQ(DurationText(12.34), "12.3 s");
  EXPECT_EQ(DurationText(59.97), "1 min 00 s");
  EXPECT_EQ(DurationText(245), "4 min 05 s");
  EXPECT_EQ(DurationText(7380), "2 h 03 min");
}

TEST(BytesText, UsesPowersOfTen) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1'500'000), "1.5 MB");
  EXPECT_EQ(BytesText(999'600), "1 MB");
  EXPECT_EQ(BytesText(2'250'000'000), "2.25 GB");
}

}  // namespace
}  // namespace millrace::tools
