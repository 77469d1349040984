// SPDX-License-Identifier: Apache-2.0
// Jobs on other hosts, with a real ssh client and a real sshd on a loopback port and temporary
// keys.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/base/status.h"
#include "tests/support/launch_fixture.h"
#include "tests/support/program.h"

namespace millrace::launch {
namespace {

using test::kReadWorkerFlags;
using test::LaunchTest;
using test::Program;
using test::ProgramRun;
using test::RunShell;

namespace fs = std::filesystem;

constexpr char kSshd[] = "/usr/sbin/sshd";

uint16_t FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

class SshTest : public LaunchTest {
 protected:
  void SetUp() override {
    if (::access(kSshd, X_OK) != 0 || RunShell("command -v ssh").status != 0)
      GTEST_SKIP() << "ssh or sshd is not installed";
    // The folder does not exist if the sshd of the system has never run.
    if (::getuid() == 0) ::mkdir("/run/sshd", 0755);
    for (const std::string name : {"host_key", "user_key"}) {
      const ProgramRun made =
          RunShell("ssh-keygen -q -t ed25519 -N '' -f " + keys_ / name + " </dev/null");
      ASSERT_EQ(made.status, 0) << made.err;
    }
    StartSshd();
  }

  // Another process can take the port before sshd listens on it.
  void StartSshd() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      port_ = FreePort();
      sshd_ = std::make_unique<Program>(
          std::vector<std::string>{kSshd, "-D", "-e", "-f", "/dev/null", "-p",
                                   std::to_string(port_), "-h", keys_ / "host_key", "-o",
                                   "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o",
                                   "StrictModes=no", "-o", "UsePAM=no", "-o",
                                   "AuthorizedKeysFile=" + keys_ / "user_key.pub"},
          keys_.path(), keys_ / "sshd.log");
      if (sshd_->WaitForOutput("Server listening")) return;
    }
    FAIL() << sshd_->output();
  }

  std::string Ssh(uint16_t port) const {
    return "--ssh=ssh -p " + std::to_string(port) + " -F none -i " + keys_ / "user_key" +
           " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
  }

  std::vector<std::string> Flags(const std::string& server) const {
    return {Ssh(port_), "--hosts=127.0.0.1,localhost", "--num_ps=2", "--num_workers=2",
            "--ps_program=" + server};
  }

  test::TemporaryFolder keys_;
  uint16_t port_ = 0;
  std::unique_ptr<Program> sshd_;
};

TEST_F(SshTest, JobRunsOnItsHostsWithATokenThatIsNotOnACommandLine) {
  const std::string worker = Script(
      "w", std::string(kReadWorkerFlags) +
               "for word; do case $word in --token_file=*) t=${word#*=};; esac; done\n"
               "echo \"words: $*\"; echo error >&2; cp $t token-$i; stat -L -c 'mode %a' $t\n"
               "while [ ! -s token-0 ] || [ ! -s token-1 ]; do sleep 0.01; done\n"
               "touch done; echo \"it's $SSH_CONNECTION\"\n");
  Program job = Launch(Flags(Server()), {worker, "--mode=sync", "--x=a b'c\"d$e"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("words: --mode=sync --x=a b'c\"d$e --job_name=worker "), 2u) << job.output();
  EXPECT_EQ(job.Count("--ps_hosts=127.0.0.1:20000,127.0.0.1:20001 --worker_hosts=127.0.0.1,"), 2u);
  EXPECT_EQ(job.Count("| error"), 2u);
  EXPECT_EQ(job.Count("mode 600"), 2u);
  EXPECT_EQ(job.Count("| it's 127.0.0.1 "), 2u) << "it went through ssh";
  EXPECT_EQ(test::ReadFile(folder_ / "token-0"), test::ReadFile(folder_ / "token-1"));
}

TEST_F(SshTest, KillAndCtrlCWorkThroughSsh) {
  const std::string worker = Script(
      "w", "trap 'echo saved; touch done; exit 130' INT\necho up; while :; do sleep 0.05; done\n");
  Program job = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
  EXPECT_EQ(job.Count("| saved"), 2u);
  fs::remove(folder_ / "done");
  Program other = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(other.WaitForOutput("| up", 2)) << other.output();
  Kill(other, "worker 1");
  EXPECT_EQ(other.Wait(), 137) << other.output();
  EXPECT_EQ(other.Count("worker 1 (pid "), 2u) << other.output();
}

TEST_F(SshTest, KilledLauncherLeavesNothingOnItsHosts) {
  const std::string worker =
      Script("w", "trap '' INT TERM HUP\nsetsid sleep 1000 &\necho up; sleep 1000\n");
  Program job = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  job.Signal(SIGKILL);
  EXPECT_EQ(job.Wait(), 137);
  EXPECT_TRUE(WaitForProcesses(0));
}

// A shell script in place of ssh, which rejects some connections.
TEST_F(LaunchTest, RejectedConnectionsAreRetried) {
  const std::string ssh =
      Script("rsh",
             "mkdir try-1 2>/dev/null || for i in 2 3 4; do mkdir try-$i 2>/dev/null && "
             "exit 255; done\nexec sh -c \"$2\"\n");
  Program job = Launch({"--ssh=" + ssh, "--hosts=127.0.0.1", "--num_ps=1", "--num_workers=2",
                        "--ps_program=" + Server()},
                       {Script("w", "echo worked; touch done\n"), "--mode=sync"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("| worked"), 2u) << job.output();
  for (const std::string refused : {"try-2", "try-3", "try-4"})
    EXPECT_TRUE(fs::exists(folder_ / refused)) << refused;
}

TEST_F(SshTest, HostThatCannotRunTheJobIsNamedBeforeAnyProcessStarts) {
  const std::string worker = Script("w", "touch ran\n");
  Program no_program = Launch(Flags("no-such-server"), {worker, "--mode=sync"});
  EXPECT_EQ(no_program.Wait(), 1);
  EXPECT_EQ(no_program.Count("host 127.0.0.1: 'no-such-server': no program of this name"), 1u)
      << no_program.output();
  sshd_.reset();
  Program no_host = Launch(Flags(Server()), {worker, "--mode=sync"});
  EXPECT_EQ(no_host.Wait(), 1);
  EXPECT_EQ(no_host.Count("host 127.0.0.1: ssh exited with status 255"), 1u) << no_host.output();
  EXPECT_EQ(no_host.Count("Connection refused"), 2u) << "the message of ssh";
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

}  // namespace
}  // namespace millrace::launch
