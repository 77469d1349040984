// Jobs on other hosts: a real ssh client and a real sshd, on a loopback port and with keys that are
// thrown away.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/base/status.h"
#include "tests/support/launch_jobs.h"
#include "tests/support/program.h"

namespace millrace::tools {
namespace {

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
    // sshd of a system whose own has never run lacks its folder.
    if (::getuid() == 0) ::mkdir("/run/sshd", 0755);
    for (const std::string name : {"host_key", "user_key"}) {
      const ProgramRun made =
          RunShell("ssh-keygen -q -t ed25519 -N '' -f " + keys_ / name + " </dev/null");
      ASSERT_EQ(made.status, 0) << made.err;
    }
    StartSshd();
  }

  // Another process may take a port between its being found free and sshd's taking it.
  void StartSshd() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      port_ = FreePort();
      sshd_ = std::make_unique<Launched>(
          std::vector<std::string>{kSshd, "-D", "-e", "-f", "/dev/null", "-p",
                                   std::to_string(port_), "-h", keys_ / "host_key", "-o",
                                   "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o",
                                   "StrictModes=no", "-o", "UsePAM=no", "-o",
                                   "AuthorizedKeysFile=" + keys_ / "user_key.pub"},
          keys_.path(), keys_ / "sshd.log");
      while (sshd_->Count("Server listening") == 0 && !sshd_->HasEnded())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (!sshd_->HasEnded()) return;
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
  std::unique_ptr<Launched> sshd_;
};

TEST_F(SshTest, JobRunsOnItsHostsWithATokenThatWasNeverOnACommandLine) {
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) +
                      "for word; do case $word in --token_file=*) t=${word#*=};; esac; done\n"
                      "echo \"words: $*\"; echo error >&2; cp $t token-$i; stat -c 'mode %a' $t\n"
                      "while [ ! -s token-0 ] || [ ! -s token-1 ]; do sleep 0.01; done\n"
                      "touch done; echo \"it's $SSH_CONNECTION\"\n");
  Launched job = Launch(Flags(Server()), {worker, "--mode=sync", "--x=a b'c\"d$e"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("words: --mode=sync --x=a b'c\"d$e --job_name=worker "), 2u) << job.output();
  EXPECT_EQ(job.Count("--ps_hosts=127.0.0.1:20000,127.0.0.1:20001 --worker_hosts=127.0.0.1,"), 2u);
  EXPECT_EQ(job.Count("| error"), 2u);
  EXPECT_EQ(job.Count("mode 600"), 2u);
  EXPECT_EQ(job.Count("| it's 127.0.0.1 "), 2u) << "it went through ssh";
  EXPECT_EQ(test::ReadFile(folder_ / "token-0"), test::ReadFile(folder_ / "token-1"));
}

TEST_F(SshTest, DeathAndCtrlCReachThroughSsh) {
  const std::string worker = Script(
      "w", "trap 'echo saved; touch done; exit 130' INT\necho up; while :; do sleep 0.05; done\n");
  Launched job = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(job.Says("| up", 2)) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
  EXPECT_EQ(job.Count("| saved"), 2u);
  fs::remove(folder_ / "done");
  Launched other = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(other.Says("| up", 2)) << other.output();
  Kill(other, "worker 1");
  EXPECT_EQ(other.Wait(), 137) << other.output();
  EXPECT_EQ(other.Count("worker 1 (pid "), 2u) << other.output();
}

TEST_F(SshTest, KilledLauncherLeavesNothingOnItsHosts) {
  const std::string worker =
      Script("w", "trap '' INT TERM HUP\nsetsid sleep 1000 &\necho up; sleep 1000\n");
  Launched job = Launch(Flags(Server()), {worker, "--mode=sync"});
  ASSERT_TRUE(job.Says("| up", 2)) << job.output();
  job.Signal(SIGKILL);
  EXPECT_EQ(job.Wait(), 137);
  EXPECT_TRUE(IsLeft(0));
}

// A stand-in for ssh: the shell of this host, behind a door that is now and then shut.
TEST_F(LaunchTest, RefusedConnectionsAreTriedAgain) {
  const std::string ssh =
      Script("rsh",
             "mkdir try-1 2>/dev/null || for i in 2 3 4; do mkdir try-$i 2>/dev/null && "
             "exit 255; done\nexec sh -c \"$2\"\n");
  Launched job = Launch({"--ssh=" + ssh, "--hosts=127.0.0.1", "--num_ps=1", "--num_workers=2",
                         "--ps_program=" + Server()},
                        {Script("w", "echo worked; touch done\n"), "--mode=sync"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("| worked"), 2u) << job.output();
  for (const std::string refused : {"try-2", "try-3", "try-4"})
    EXPECT_TRUE(fs::exists(folder_ / refused)) << refused;
}

TEST_F(SshTest, HostThatCannotRunTheJobIsNamedBeforeAnythingStarts) {
  const std::string worker = Script("w", "touch ran\n");
  Launched no_program = Launch(Flags("no-such-server"), {worker, "--mode=sync"});
  EXPECT_EQ(no_program.Wait(), 1);
  EXPECT_EQ(no_program.Count("host 127.0.0.1: 'no-such-server': no program of this name"), 1u)
      << no_program.output();
  sshd_.reset();
  Launched no_host = Launch(Flags(Server()), {worker, "--mode=sync"});
  EXPECT_EQ(no_host.Wait(), 1);
  EXPECT_EQ(no_host.Count("host 127.0.0.1: ssh ended with status 255"), 1u) << no_host.output();
  EXPECT_EQ(no_host.Count("Connection refused"), 2u) << "in ssh's own words";
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

}  // namespace
}  // namespace millrace::tools
