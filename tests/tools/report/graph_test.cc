// SPDX-License-Identifier: Apache-2.0
// The computation graph of runs whose traces are written by hand.

#include "tools/report/graph.h"

#include <gtest/gtest.h>

#include "tests/tools/report/synthetic_run.h"

namespace millrace::report {
namespace {

class GraphTest : public testing::Test {
 protected:
  Graph Make() {
    const Result<RunData> run = LoadRun(folder_.path());
    EXPECT_TRUE(run.ok()) << run.status().message();
    return MakeGraph(*run, MakeOpTable(*run));
  }
  static std::string Names(const Graph& graph) {
    std::string names;
    for (const GraphNode& node : graph.nodes) names += node.name + " ";
    return names;
  }
  test::TemporaryFolder folder_;
};

TEST_F(GraphTest, SparseStepIsInTheOrderOfTheDataFlow) {
  SyntheticTrace trace;
  trace.Span(1, "step", "step", 0, 100, "\"rows\":100");
  trace.Span(1, "update", "compute", 60, 30, "\"nnz\":3900");
  trace.Span(1, "margins", "compute", 10, 40, "\"rows\":100,\"nnz\":3900");
  trace.Span(1, "loss_residuals", "compute", 50, 5, "\"rows\":100");
  trace.Span(1, "input_wait", "input", 1, 2);
  trace.Span(2, "decode", "input", 0, 20, "\"rows\":100");
  trace.Span(2, "read_block", "disk", 30, 10, "\"bytes\":1000");
  trace.Write(folder_, "worker-0");
  const Graph graph = Make();
  EXPECT_EQ(Names(graph), "read_block decode input_wait margins loss_residuals update ");
  EXPECT_EQ(graph.nodes[3].title, "X·w");
  EXPECT_EQ(graph.nodes[3].detail, "100 rows, 3,900 nnz");
  EXPECT_NEAR(graph.nodes[3].share_of_step, 0.4, 1e-9);
  ASSERT_EQ(graph.back.size(), 1u);
  EXPECT_EQ(graph.back[0], std::make_pair(size_t{5}, size_t{3}));
}

TEST_F(GraphTest, JobGoesThroughItsServers) {
  SyntheticTrace worker, server;
  worker.Span(1, "step", "step", 0, 100, "\"rows\":100");
  worker.Span(1, "margins", "compute", 10, 40);
  worker.Span(1, "pull", "op", 50, 10);
  worker.Span(1, "exchange_send", "network", 60, 5);
  worker.Span(1, "exchange_wait", "network", 70, 20);
  worker.Write(folder_, "worker-0");
  server.Span(1, "serve_exchange", "server", 66, 20);
  server.Span(1, "apply", "server", 70, 5);
  server.Write(folder_, "ps-0");
  EXPECT_EQ(Names(Make()), "margins exchange_send apply exchange_wait ");
}

TEST_F(GraphTest, NetHasItsLayersWithShapesAndBothDirections) {
  SyntheticTrace trace;
  trace.Span(1, "step", "step", 0, 100, "\"rows\":64");
  trace.Span(1, "conv1 forward", "compute", 0, 10, "\"rows\":64");
  trace.Span(2, "conv1 forward", "compute", 0, 10, "\"rows\":64");
  trace.Span(1, "conv1 backward weights", "compute", 50, 7, "\"rows\":64");
  trace.Span(1, "conv1 backward data", "compute", 60, 6, "\"rows\":64");
  trace.Span(1, "conv10 forward", "compute", 70, 3, "\"rows\":64");
  trace.Span(1, "update", "compute", 80, 5);
  trace.Write(folder_, "worker-0");
  test::WriteFile(folder_ / "graph.dot",
                  "digraph \"net\" {\n  node [shape=box];\n"
                  "  \"images\" [label=\"images\\n1x28x28\"];\n"
                  "  \"conv1\" [label=\"conv1\\nconv -> 6x28x28\\n156 parameters\"];\n"
                  "  \"images\" -> \"conv1\";\n"
                  "  \"relu1\" [label=\"relu1\\nrelu -> 6x28x28\"];\n"
                  "  \"loss\" [label=\"softmax cross-entropy\"];\n"
                  "  \"labels\" [label=\"labels\"];\n"
                  "  \"torn\" [label=\"\n}\n");
  const Graph graph = Make();
  EXPECT_EQ(Names(graph), "images conv1 relu1 loss update ");
  EXPECT_EQ(graph.nodes[1].detail, "conv -> 6x28x28; 156 parameters");
  EXPECT_NEAR(graph.nodes[1].forward_s, 10e-6, 1e-12);  // of each of the two threads
  EXPECT_NEAR(graph.nodes[1].share_of_step, 0.23, 1e-9);
  EXPECT_NEAR(graph.nodes[1].backward_s, 13e-6, 1e-12);
  EXPECT_EQ(graph.nodes[1].op, "conv1 forward");
  EXPECT_EQ(graph.nodes[2].op, "");
  const Result<RunData> run = LoadRun(folder_.path());
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(NumParameters(*run), 156u);
}

TEST_F(GraphTest, RunWithoutStepsHasNone) {
  test::WriteFile(folder_ / "run.json", "{\"status\":\"finished\"}");
  EXPECT_TRUE(Make().nodes.empty());
}

}  // namespace
}  // namespace millrace::report
