// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/cluster_task.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::launch {
namespace {

using Hosts = std::vector<std::string>;

std::string TfConfig(const std::string& task) {
  return R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "[::1]:3"], "ps": ["c:4", "d:5"]},)"
         R"( "environment": "cloud", "task": )" +
         task + "}";
}

TEST(ClusterTaskTest, TfConfigGivesTheChiefTheFirstPlaceAmongWorkers) {
  struct Case {
    std::string task;
    ProcessId id;
  };
  for (const Case& c :
       {Case{R"({"type": "chief", "index": 0})", {Role::kWorker, 0}},
        Case{R"({"type": "worker", "index": 1})", {Role::kWorker, 2}},
        Case{R"({"index": "0", "type": "worker", "trial": {"x": [1]}})", {Role::kWorker, 1}},
        Case{R"({"type": "ps", "index": 1})", {Role::kServer, 1}}}) {
    SCOPED_TRACE(c.task);
    const Result<ClusterTask> task = TaskFromTfConfig(TfConfig(c.task));
    ASSERT_TRUE(task.ok()) << task.status().message();
    EXPECT_EQ(task->ps_hosts, (Hosts{"c:4", "d:5"}));
    EXPECT_EQ(task->worker_hosts, (Hosts{"a", "b", "::1"}));
    EXPECT_EQ(task->id, c.id);
  }
}

TEST(ClusterTaskTest, AnEvaluatorHasNoRole) {
  const auto task = TaskFromTfConfig(TfConfig(R"({"type": "evaluator", "index": 0})"));
  ASSERT_TRUE(task.ok()) << task.status().message();
  EXPECT_FALSE(task->id);
}

TEST(ClusterTaskTest, TfConfigWithoutAClusterIsOneProcess) {
  for (const char* text : {"{}", R"({"task": {"type": "worker", "index": 0}})"}) {
    const auto task = TaskFromTfConfig(text);
    ASSERT_TRUE(task.ok()) << task.status().message();
    EXPECT_EQ(task->shape(), (JobShape{.num_ps = 0, .num_workers = 1}));
    EXPECT_EQ(task->id, (ProcessId{Role::kWorker, 0}));
  }
}

TEST(ClusterTaskTest, WrongTfConfigIsAnErrorThatSaysWhatIsExpected) {
  struct Case {
    std::string text, message;
  };
  for (const Case& c : {
           Case{"", "TF_CONFIG"},
           Case{"{\"cluster\": 3}", "TF_CONFIG"},
           Case{TfConfig("{}"), "expected a task of type chief, worker, ps or evaluator"},
           Case{TfConfig(R"({"type": "worker", "index": 2})"), "expected an index below the 2"},
           Case{TfConfig(R"({"type": "worker", "index": -1})"), "an index from 0"},
           Case{TfConfig(R"({"type": "ps", "index": 99999999})"), "TF_CONFIG"},
           Case{R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}})",
                "2 workers and no server"},
           Case{R"({"cluster": {"worker": ["a:1"], "ps": ["b"]}, "task": {"type": "ps"}})",
                "server 'b': expected HOST:PORT"},
           Case{R"({"cluster": {"ps": ["b:1"]}, "task": {"type": "ps"}})", "at least one worker"},
       }) {
    SCOPED_TRACE(c.text);
    const auto task = TaskFromTfConfig(c.text);
    ASSERT_FALSE(task.ok());
    EXPECT_NE(task.status().message().find(c.message), std::string::npos)
        << task.status().message();
  }
}

TEST(ClusterTaskTest, TruncatedTfConfigIsAnError) {
  const std::string text = TfConfig(R"({"type": "worker", "index": 1})");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(TaskFromTfConfig(text.substr(0, size)).ok()) << size;
  }
}

TEST(ClusterTaskTest, RangesOfHostsAreExpanded) {
  const auto hosts = ExpandHosts("ps-{9..11}.x:70,extra:71");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_EQ(*hosts, (Hosts{"ps-9.x:70", "ps-10.x:70", "ps-11.x:70", "extra:71"}));
  for (const char* wrong : {"a{1..0}", "a{1..2", "a1..2}", "a{..2}", "a{1..}", "a{1-2}", "}{",
                            "a{0..1}{0..1}", "a,,b", "a{0..99999999999999999999}", "a b"}) {
    EXPECT_FALSE(ExpandHosts(wrong).ok()) << wrong;
  }
}

TEST(ClusterTaskTest, AHostIsWhatItsNameSays) {
  const auto id_of = [](const std::string& host, std::optional<size_t> index = {}) {
    const auto task = TaskOfHost("ps-{0..1}.clicks:7000", "worker-{0..2}.clicks", host, index);
    return task.ok() ? task->id : std::nullopt;
  };
  EXPECT_EQ(id_of("ps-1"), (ProcessId{Role::kServer, 1}));
  EXPECT_EQ(id_of("ps-1.clicks"), (ProcessId{Role::kServer, 1}));
  EXPECT_EQ(id_of("worker-2"), (ProcessId{Role::kWorker, 2}));
  EXPECT_EQ(id_of("worker-2.clicks.svc.cluster.local"), (ProcessId{Role::kWorker, 2}));
  EXPECT_EQ(id_of("job-x7f", 1), (ProcessId{Role::kWorker, 1}));
  EXPECT_EQ(id_of("job-x7f"), std::nullopt);
  EXPECT_EQ(id_of("job-x7f", 3), std::nullopt);
}

TEST(ClusterTaskTest, AServerListensOnItsAddressOrOnAll) {
  EXPECT_EQ(ListenAddress("10.0.0.1:7000"), "10.0.0.1:7000");
  EXPECT_EQ(ListenAddress("[::1]:7000"), "[::1]:7000");
  EXPECT_EQ(ListenAddress("localhost:7000"), "localhost:7000");
  EXPECT_EQ(ListenAddress("ps-0.clicks:7000"), "0.0.0.0:7000");
}

}  // namespace
}  // namespace millrace::launch
