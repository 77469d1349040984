// SPDX-License-Identifier: Apache-2.0
// The computation graph of a run: its ops in the order of the data flow, with their time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/op_table.h"
#include "tools/report/run_data.h"

namespace millrace::report {

struct GraphNode {
  std::string name = {};    // "margins", "conv2"
  std::string title = {};   // "X·w", "conv2"
  std::string detail = {};  // "conv -> 16x10x10", or the mean output
  std::string lane = {};    // "input", "training", "exchange", "servers"
  std::string cat = {};     // category of its ops
  std::string op = {};      // to search for in the timeline; empty: none
  double forward_s = 0;
  double backward_s = 0;
  double share_of_step = 0;
};

struct Graph {
  std::vector<GraphNode> nodes;  // in the order of the data flow
  std::vector<std::pair<size_t, size_t>>
      back;  // edges of weights back to an earlier node; from, to
};

// The layers of a net come from the graph.dot of the run. A run without steps has no nodes.
Graph MakeGraph(const RunData& run, const std::vector<OpRow>& ops);

// The parameters of the net; 0: unknown.
uint64_t NumParameters(const RunData& run);

}  // namespace millrace::report
