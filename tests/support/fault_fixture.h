// SPDX-License-Identifier: Apache-2.0
// Training jobs that lose processes or are interrupted. The tests of sparse models and of nets
// share them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/launch_fixture.h"

namespace millrace::test {

class FaultTest : public LaunchTest {
 protected:
  // `checkpoints` is the flag that makes a run write several checkpoints.
  explicit FaultTest(const std::string& checkpoints) : checkpoints_(checkpoints) {}

  // The program with its flags and `more`.
  virtual std::vector<std::string> Command(const std::string& mode, const std::string& run,
                                           const std::string& more) const = 0;
  // The same for a run that writes several checkpoints.
  std::vector<std::string> Command(const std::string& mode, const std::string& run) const {
    return Command(mode, run, checkpoints_);
  }

  // The model of a sync job of two servers and three workers without faults. Its run is
  // "faultless".
  std::string FaultlessModel();

  // These run the same job with a fault and expect the same model.
  void ExpectSameModelAfterKill(const std::vector<std::string>& victims);
  void ExpectSameModelAfterInterrupt();
  // A worker is stopped while the job is interrupted.
  void ExpectSameModelAfterInterruptWithStoppedWorker();

  const std::vector<std::string> flags_ = {"--num_ps=2", "--num_workers=3", "--restart=2"};

 private:
  bool WaitForCheckpoint(const Program& job, const std::string& run) const;

  const std::string checkpoints_;
};

}  // namespace millrace::test
