// Jobs of stand-in programs under a real millrace-launch.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/launched.h"
#include "tests/test_files.h"

namespace millrace::tools {

// What a shell needs to know of a server's flags.
inline constexpr char kReadServerFlags[] =
    "for word; do case $word in --task_index=*) i=${word#*=};; --num_ps=*) s=${word#*=};; esac; "
    "done\n";
// A server that ends when a file "done" is there.
inline constexpr char kListen[] =
    "echo \"millrace-ps: shard $i of $s listening on 127.0.0.1:$((20000 + i))\"\n";
inline constexpr char kServeUntilDone[] = "while [ ! -e done ]; do sleep 0.01; done\n";
// $i is the worker's number.
inline constexpr char kReadWorkerFlags[] =
    "for word; do case $word in --task_index=*) i=${word#*=};; esac; done\n";

// Each test has a folder, in which all processes of its jobs work.
class LaunchTest : public testing::Test {
 protected:
  void TearDown() override {
    // Whatever happened: no process is left.
    EXPECT_TRUE(IsLeft(0)) << "processes still work in " << folder_.path();
  }

  static std::string Launcher() { return std::string(MILLRACE_BIN_DIR) + "/millrace-launch"; }

  // An executable script in the folder.
  std::string Script(const std::string& name, const std::string& body) const {
    const std::string path = folder_ / name;
    test::WriteFile(path, "#!/bin/sh\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  // A server as it should be.
  std::string Server() const {
    return Script("ps", std::string(kReadServerFlags) + kListen + kServeUntilDone);
  }

  Launched Launch(const std::vector<std::string>& flags, const std::vector<std::string>& command) {
    std::vector<std::string> words = {Launcher()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return Launched(words, folder_.path(), folder_ / ("log" + std::to_string(logs_++)));
  }

  // Kills, or sends another signal to, the process that the placement table names.
  static void Kill(const Launched& job, const std::string& process, int signal = SIGKILL) {
    const std::string output = job.output();
    const size_t line = output.find("\n" + process + "  ");
    ASSERT_NE(line, std::string::npos) << output;
    const std::string row = output.substr(line + 1, output.find('\n', line + 1) - line - 1);
    KillPid(row.substr(row.rfind(' ') + 1), signal);
  }
  static void KillPid(const std::string& digits, int signal = SIGKILL) {
    const long pid = std::strtol(digits.c_str(), nullptr, 10);
    ASSERT_GT(pid, 1) << digits;
    ::kill(static_cast<pid_t>(pid), signal);
  }

  // Waits until the job has learnt something: the chief has written the first rows of its table.
  bool IsUnderWay(Launched& job, const std::string& run, int tests = 1) const {
    while (Tests(run) < tests) {
      if (job.HasEnded()) return Tests(run) >= tests;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  // Rows of the table, without its head.
  int Tests(const std::string& run) const {
    const std::string rows = test::ReadFile(folder_ / (run + "/metrics.csv"));
    return static_cast<int>(std::count(rows.begin(), rows.end(), '\n')) - 1;
  }

  std::string Model(const std::string& run) const {
    return test::ReadFile(folder_ / (run + "/model/model.bin"));
  }

  // Waits until so many processes work in the folder.
  bool IsLeft(size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (Working() != count) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  size_t Working() const {
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

  test::TemporaryFolder folder_;
  int logs_ = 0;
};

}  // namespace millrace::tools
