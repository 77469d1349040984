// SPDX-License-Identifier: Apache-2.0
#include "tests/support/launch_fixture.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace millrace::test {

void LaunchTest::TearDown() {
  EXPECT_TRUE(WaitForProcesses(0)) << "processes still run in " << folder_.path();
}

std::string LaunchTest::Script(const std::string& name, const std::string& body) const {
  const std::string path = folder_ / name;
  WriteFile(path, "#!/bin/sh\n" + body);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

std::string LaunchTest::Server() const {
  return Script("ps", std::string(kReadServerFlags) + kListen + kServeUntilDone);
}

Program LaunchTest::Launch(const std::vector<std::string>& flags,
                           const std::vector<std::string>& command) {
  std::vector<std::string> words = {Launcher()};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return Program(words, folder_.path(), folder_ / ("log" + std::to_string(logs_++)));
}

void LaunchTest::Kill(const Program& job, const std::string& process, int signal) {
  const std::string output = job.output();
  const size_t line = output.find("\n" + process + "  ");
  ASSERT_NE(line, std::string::npos) << output;
  const std::string row = output.substr(line + 1, output.find('\n', line + 1) - line - 1);
  KillPid(row.substr(row.rfind(' ') + 1), signal);
}

void LaunchTest::KillPid(const std::string& digits, int signal) {
  const long pid = std::strtol(digits.c_str(), nullptr, 10);
  ASSERT_GT(pid, 1) << digits;
  ::kill(static_cast<pid_t>(pid), signal);
}

bool LaunchTest::WaitForEvaluations(Program& job, const std::string& run, int count) const {
  WaitUntil([&] { return job.HasExited() || Evaluations(run) >= count; });
  return Evaluations(run) >= count;
}

int LaunchTest::Evaluations(const std::string& run) const {
  const std::string rows = ReadFile(folder_ / (run + "/metrics.csv"));
  return static_cast<int>(std::count(rows.begin(), rows.end(), '\n')) - 1;
}

std::string LaunchTest::Model(const std::string& run) const {
  return ReadFile(folder_ / (run + "/model/model.bin"));
}

bool LaunchTest::WaitForProcesses(size_t count) const {
  return WaitUntil([&] { return CountProcesses() == count; });
}

size_t LaunchTest::CountProcesses() const {
  size_t count = 0;
  DIR* processes = ::opendir("/proc");
  while (const dirent* entry = ::readdir(processes)) {
    char target[4096];
    const std::string link = "/proc/" + std::string(entry->d_name) + "/cwd";
    const ssize_t size = ::readlink(link.c_str(), target, sizeof target);
    count += size > 0 && std::string(target, static_cast<size_t>(size)) == folder_.path();
  }
  ::closedir(processes);
  return count;
}

}  // namespace millrace::test
