// SPDX-License-Identifier: Apache-2.0
// Jobs of shell scripts or real programs under millrace-launch.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/test_files.h"

namespace millrace::test {

// Parts of shell scripts that stand in for millrace-ps. kReadServerFlags sets $i to the index of
// the server and $s to the number of servers.
inline constexpr char kReadServerFlags[] =
    "for word; do case $word in --task_index=*) i=${word#*=};; --num_ps=*) s=${word#*=};; esac; "
    "done\n";
inline constexpr char kListen[] =
    "echo \"millrace-ps: shard $i of $s listening on 127.0.0.1:$((20000 + i))\"\n";
// Exits when the file "done" exists.
inline constexpr char kServeUntilDone[] = "while [ ! -e done ]; do sleep 0.01; done\n";
// For worker scripts: sets $i to the index of the worker.
inline constexpr char kReadWorkerFlags[] =
    "for word; do case $word in --task_index=*) i=${word#*=};; esac; done\n";

// Each test has a folder, which is the working directory of all processes of its jobs.
class LaunchTest : public testing::Test {
 protected:
  // No test may leave a process behind.
  void TearDown() override;

  static std::string Launcher() { return ProgramPath("millrace-launch"); }

  // Writes an executable shell script to the folder and returns its path.
  std::string Script(const std::string& name, const std::string& body) const;

  // A server that listens and exits when the file "done" exists.
  std::string Server() const;

  Program Launch(const std::vector<std::string>& flags, const std::vector<std::string>& command);

  // Sends a signal to the process with this name in the placement table.
  static void Kill(const Program& job, const std::string& process, int signal = SIGKILL);
  static void KillPid(const std::string& digits, int signal = SIGKILL);

  // Waits until the chief has written this many evaluations. False if the job exits before.
  bool WaitForEvaluations(Program& job, const std::string& run, int count = 1) const;
  // The rows of metrics.csv.
  int Evaluations(const std::string& run) const;

  std::string Model(const std::string& run) const;

  // Waits until this many processes have the folder as their working directory.
  bool WaitForProcesses(size_t count) const;

  TemporaryFolder folder_;

 private:
  size_t CountProcesses() const;

  int logs_ = 0;
};

}  // namespace millrace::test
