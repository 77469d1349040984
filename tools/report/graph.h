// The computation graph of a run: what is made from what, and what each op takes.
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
  std::string cat = {};     // of its ops
  std::string op = {};      // that the timeline can be searched for; empty: none of its own
  double forward_s = 0;
  double backward_s = 0;
  double share_of_step = 0;
};

struct Graph {
  std::vector<GraphNode> nodes;                 // in the order of the data's way
  std::vector<std::pair<size_t, size_t>> back;  // weights that go back; from, to
};

// A net's layers are those of the run's graph.dot. No nodes without steps.
Graph MakeGraph(const RunData& run, const std::vector<OpRow>& ops);

// Of a net; 0: not told.
uint64_t NumParameters(const RunData& run);

}  // namespace millrace::report
