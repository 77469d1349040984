// What lies between a launcher and its processes: messages, secrets, programs, notes.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/test_files.h"
#include "tools/launch/child/process_shim.h"
#include "tools/launch/child/program_path.h"
#include "tools/launch/child/shim_message.h"
#include "tools/launch/child/token_file.h"
#include "tools/launch/rendezvous.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

// Reads a whole task from bytes that come in pieces of `size`.
Result<KeeperTask> ReadTask(const std::string& bytes, size_t size) {
  KeeperMessageReader reader;
  KeeperTask task;
  for (size_t begin = 0; begin < bytes.size(); begin += size) {
    reader.Feed(std::string_view(bytes).substr(begin, size));
    while (true) {
      ASSIGN_OR_RETURN(const auto message, reader.Next());
      if (!message) break;
      ASSIGN_OR_RETURN(const bool complete, AddToTask(*message, task));
      if (complete) return task;
    }
  }
  return Corrupt("the task is not complete");
}

TEST(KeeperMessage, TaskArrivesWholeInPiecesOfAnySize) {
  const KeeperTask task = {.directory = "/a b", .command = {"x", "", "--y=\n"}, .token = "secret"};
  const std::string bytes = EncodeTask(task);
  for (size_t size = 1; size <= bytes.size(); ++size) {
    const Result<KeeperTask> read = ReadTask(bytes, size);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->directory, task.directory);
    EXPECT_EQ(read->command, task.command);
    EXPECT_EQ(read->token, task.token);
  }
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(ReadTask(bytes.substr(0, cut), 3).ok()) << cut;
}

TEST(KeeperMessage, NoiseIsRefused) {
  EXPECT_FALSE(ReadTask("hello, keeper", 4).ok());
  EXPECT_FALSE(ReadTask(std::string("A\xff\xff\xff\xff", 5), 5).ok()) << "4 GB";
  EXPECT_FALSE(ReadTask(std::string("G\0\0\0\0", 5), 5).ok()) << "no command";
  EXPECT_FALSE(ReadTask(EncodeSignal(SIGTERM), 9).ok()) << "a signal for nobody";
}

TEST(Keeper, PidLineIsTakenWordForWord) {
  EXPECT_EQ(KeptPid("millrace-launch: pid 4711"), 4711);
  for (const char* line : {"millrace-launch: pid 0", "millrace-launch: pid -1", "pid 4711",
                           "millrace-launch: pid 4711x", "millrace-launch: pid "}) {
    EXPECT_FALSE(KeptPid(line)) << line;
  }
}

TEST(TokenFile, NobodyElseMayReadItAndItGoesWithItsOwner) {
  std::string path;
  {
    const Result<TokenFile> file = TokenFile::Create("secret");
    ASSERT_TRUE(file.ok()) << file.status().message();
    path = file->path();
    struct stat info;
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(::stat(fs::path(path).parent_path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_EQ(test::ReadFile(path), "secret\n");
  }
  EXPECT_FALSE(fs::exists(fs::path(path).parent_path()));
}

TEST(TokenFile, TokensDiffer) {
  const std::string one = *RandomToken(), other = *RandomToken();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, other);
}

TEST(ProgramPath, SearchesBesideItselfThenInThePath) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "program", "#!/bin/sh\n");
  EXPECT_EQ(FindProgram("program", folder.path()).status().code(), Code::kIo)
      << "must not be executed";
  fs::permissions(folder / "program", fs::perms::owner_all);
  EXPECT_EQ(*FindProgram("program", "/nowhere:" + folder.path()), folder / "program");
  const std::string own_name = fs::path(OwnPath()).filename().string();
  EXPECT_EQ(*FindProgram(own_name, ""), OwnPath());
  EXPECT_EQ(*FindProgram(folder / "program", ""), folder / "program");
  EXPECT_EQ(FindProgram("no-such-program", folder.path()).status().code(), Code::kNotFound);
  EXPECT_EQ(FindProgram(folder / "none", "").status().code(), Code::kNotFound);
  EXPECT_EQ(FindProgram(folder.path(), "").status().code(), Code::kIo);
  EXPECT_FALSE(FindProgram("", folder.path()).ok());
}

TEST(Rendezvous, NotesAreSeenAtOnceAndTakenAwayByTheLast) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "deep/job-a_1";
  {
    const auto one = Rendezvous::Open(folder / "deep", "a/1", 0, 2);
    ASSERT_TRUE(one.ok()) << one.status().message();
    EXPECT_FALSE(one->Read("note"));
    {
      const auto other = Rendezvous::Open(folder / "deep", "a/1", 1, 2);
      ASSERT_TRUE(other.ok()) << other.status().message();
      ASSERT_TRUE(other->Post("note", "text").ok());
      pollfd watch = {one->watch(), POLLIN, 0};
      EXPECT_EQ(::poll(&watch, 1, 10000), 1);
      one->ClearWatch();
      EXPECT_EQ(::poll(&watch, 1, 0), 0);
      EXPECT_EQ(one->Read("note"), "text");
      EXPECT_EQ(one->Names("no"), std::vector<std::string>{"note"});
      struct stat info;
      ASSERT_EQ(::stat((path + "/note").c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, 0600u);
    }
    EXPECT_EQ(one->Read("note"), "text") << "others may still need it";
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace millrace::tools
