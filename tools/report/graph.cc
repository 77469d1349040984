// SPDX-License-Identifier: Apache-2.0
#include "tools/report/graph.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

namespace millrace::report {
namespace {

struct Stage {
  const char* op;
  const char* where;  // as in the op table
  const char* title;
  const char* lane;
};

// The stages of a record, in order. Stages whose op a run does not have are left out.
constexpr Stage kInput[] = {
    {"read_block", "worker input", "files", "input"},
    {"decompress", "worker input", "decompress", "input"},
    {"frame_crc", "worker input", "records, CRC", "input"},
    {"fetch_chunk", "worker input", "DuckDB", "input"},
    {"table_rows", "worker input", "rows of tables", "input"},
    {"decode", "worker input", "decode to CSR", "input"},
    {"compact", "worker input", "unique keys", "input"},
    {"make batch", "worker", "make batch", "input"},
    {"make batch", "worker input", "make batch", "input"},
    {"input_wait", "worker", "queue", "training"},
};
constexpr Stage kSparse[] = {
    {"pull", "worker", "weights of the keys", "training"},
    {"margins", "worker", "X·w", "training"},
    {"loss_residuals", "worker", "loss, residuals", "training"},
    {"gradient", "worker", "Xᵀ·e", "training"},
    {"update", "worker", "Xᵀ·e into w", "training"},
    {"push", "worker", "update of the keys", "training"},
};
constexpr Stage kDense[] = {
    {"add up gradients", "worker", "add up gradients", "training"},
    {"update", "worker", "update", "training"},
};
constexpr Stage kExchange[] = {
    {"exchange_send", "worker", "gradient, keys out", "exchange"},
    {"push_dense", "worker", "gradients out", "exchange"},
    {"decode_request", "ps", "decode", "servers"},
    {"serve_push_dense", "ps", "receive gradients", "servers"},
    {"barrier_wait", "ps", "barrier", "servers"},
    {"aggregate", "ps", "add up workers", "servers"},
    {"apply", "ps", "update of w", "servers"},
    {"gather", "ps", "weights of the keys", "servers"},
    {"encode_reply", "ps", "encode", "servers"},
    {"serve_pull_dense", "ps", "send weights", "servers"},
    {"exchange_wait", "worker", "weights in", "exchange"},
    {"pull_dense", "worker", "weights in", "exchange"},
};

const OpRow* Find(const std::vector<OpRow>& ops, const std::string& op, const std::string& where) {
  const auto row = std::find_if(ops.begin(), ops.end(), [&](const OpRow& candidate) {
    return candidate.op == op && candidate.where == where;
  });
  return row == ops.end() ? nullptr : &*row;
}

template <size_t n>
void AddStages(const Stage (&stages)[n], const std::vector<OpRow>& ops, Graph& graph) {
  for (const Stage& stage : stages) {
    const OpRow* row = Find(ops, stage.op, stage.where);
    if (!row) continue;
    graph.nodes.push_back({.name = stage.op,
                           .title = stage.title,
                           .detail = row->output,
                           .lane = stage.lane,
                           .cat = profiler::CatName(row->cat),
                           .op = stage.op,
                           .forward_s = row->total_s / row->threads,
                           .share_of_step = row->share_of_step});
  }
}

// A box of a graph in the DOT language, as the trainer of nets writes it.
struct DotBox {
  std::string name;
  std::vector<std::string> lines;  // of its label
};

std::vector<std::string> LabelLines(std::string_view label) {
  std::vector<std::string> lines;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = label.find("\\n");
    lines.emplace_back(label.substr(0, end));
    if (end != std::string_view::npos) label.remove_prefix(end + 2);
  }
  return lines;
}

constexpr size_t kMaxBoxes = 1000;  // a net has dozens

// In the order of the file. Lines that are no box with a label are skipped.
std::vector<DotBox> ReadDotBoxes(const std::string& dot) {
  constexpr std::string_view kBetween = "\" [label=\"", kEnd = "\"];";
  std::vector<DotBox> boxes;
  std::istringstream text(dot);
  for (std::string line; boxes.size() < kMaxBoxes && std::getline(text, line);) {
    const size_t name = line.find('"'), between = line.find(kBetween), end = line.rfind(kEnd);
    if (between == std::string::npos || end == std::string::npos || name >= between) continue;
    const size_t label = between + kBetween.size();
    if (label > end) continue;
    boxes.push_back({.name = line.substr(name + 1, between - name - 1),
                     .lines = LabelLines(std::string_view(line).substr(label, end - label))});
  }
  return boxes;
}

uint64_t ParametersIn(const std::string& line) {
  if (!line.ends_with(" parameters")) return 0;
  uint64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return number;
}

// A layer without its own ops is fused into another one, for example a relu.
GraphNode LayerNode(const DotBox& box, const std::vector<OpRow>& ops) {
  GraphNode node{.name = box.name, .title = box.name, .lane = "training", .cat = "compute"};
  if (!box.lines.empty()) node.title = box.lines[0];
  for (size_t l = 1; l < box.lines.size(); ++l) {
    node.detail += (node.detail.empty() ? "" : "; ") + box.lines[l];
  }
  const std::string forward_op = box.name + " forward", backward_op = box.name + " backward";
  for (const OpRow& row : ops) {
    const bool forward = row.op == forward_op;
    if (!forward && !row.op.starts_with(backward_op)) continue;
    if (row.op.ends_with("(eval)")) continue;
    (forward ? node.forward_s : node.backward_s) += row.total_s / row.threads;
    node.share_of_step += row.share_of_step;
    if (forward) node.op = row.op;
  }
  return node;
}

size_t AddLayers(const RunData& run, const std::vector<OpRow>& ops, Graph& graph) {
  const size_t first = graph.nodes.size();
  for (const DotBox& box : ReadDotBoxes(run.graph_dot)) {
    if (box.name == "labels") continue;
    graph.nodes.push_back(LayerNode(box, ops));
  }
  return first;
}

}  // namespace

uint64_t NumParameters(const RunData& run) {
  uint64_t sum = 0;
  for (const DotBox& box : ReadDotBoxes(run.graph_dot)) {
    for (const std::string& line : box.lines) sum += ParametersIn(line);
  }
  return sum;
}

Graph MakeGraph(const RunData& run, const std::vector<OpRow>& ops) {
  Graph graph;
  if (!Find(ops, "step", "worker")) return graph;
  AddStages(kInput, ops, graph);
  const bool net = !run.graph_dot.empty();
  const bool remote = Find(ops, "exchange_wait", "worker") != nullptr;
  size_t first = graph.nodes.size();
  if (net) {
    first = AddLayers(run, ops, graph);
    AddStages(kDense, ops, graph);
  } else {
    AddStages(kSparse, ops, graph);
  }
  // In a job the exchange replaces the pull and push of a worker.
  if (remote) {
    std::erase_if(graph.nodes, [](const GraphNode& node) {
      return node.lane == "training" && (node.name == "pull" || node.name == "push");
    });
    AddStages(kExchange, ops, graph);
  }
  if (graph.nodes.size() > first + 1) graph.back.push_back({graph.nodes.size() - 1, first});
  return graph;
}

}  // namespace millrace::report
