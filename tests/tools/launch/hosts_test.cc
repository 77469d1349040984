// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/hosts.h"

#include <gtest/gtest.h>

namespace millrace::launch {
namespace {

TEST(Hosts, LoopbackServersAreRejectedForOtherHosts) {
  LaunchOptions options;
  options.shape = {.num_ps = 1, .num_workers = 2};
  options.hosts = {"localhost", "node"};
  const HostReport here = {.info = {}, .address = "127.0.0.1", .problems = {}};
  const HostReport there = {.info = {}, .address = "10.0.0.2", .problems = {}};
  EXPECT_FALSE(CheckAddresses(options, {here, there}).ok());
  EXPECT_TRUE(CheckAddresses(options, {there, here}).ok());
  EXPECT_TRUE(CheckAddresses(options, {here, here}).ok());
}

TEST(Hosts, ReportIgnoresLoginMessages) {
  const HostReport report = {
      .info = {.name = "node", .cpu = "Some CPU", .cores = 4, .memory_bytes = 8000000000},
      .address = "10.0.0.2",
      .problems = {"no folder", "no program"}};
  std::vector<std::string> lines = {"Welcome!", ""};
  std::string text = FormatReport(report);
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.erase(0, lines.back().size() + 1);
  }
  const Result<HostReport> read = ParseReport(lines);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->info.name, "node");
  EXPECT_EQ(read->info.cpu, "Some CPU");
  EXPECT_EQ(read->info.memory_bytes, 8000000000u);
  EXPECT_EQ(read->problems, report.problems);
  lines.pop_back();
  EXPECT_FALSE(ParseReport(lines).ok()) << "a truncated report";
  EXPECT_EQ(HostTable({report}),
            "host  address   cores  memory  cpu\nnode  10.0.0.2  4      8 GB    Some CPU\n");
}

}  // namespace
}  // namespace millrace::launch
