// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/graph.h"

#include <vector>

namespace millrace::convnets {
namespace {

struct Node {
  std::string name, op;
  std::vector<std::string> inputs = {};
};

std::vector<Node> Nodes(const NetSpec& spec) {
  std::vector<Node> nodes = {{"images", "Placeholder"}, {"labels", "Placeholder"}};
  std::string below = "images";
  for (const Layer& layer : spec.layers) {
    Node node = {layer.name, LayerKindName(layer.kind), {below}};
    if (layer.has_params()) {
      for (const char* part : {"/weight", "/bias"}) {
        nodes.push_back({layer.name + part, "Variable"});
        node.inputs.push_back(layer.name + part);
      }
    }
    below = layer.name;
    nodes.push_back(node);
  }
  nodes.push_back({"softmax_loss", "SoftmaxCrossEntropy", {below, "labels"}});
  return nodes;
}

// A field of bytes: its tag, its length as a varint, and they themselves.
void AppendField(char number, const std::string& bytes, std::string& out) {
  out.push_back(static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) out.push_back(static_cast<char>(size | 0x80));
  out.push_back(static_cast<char>(size));
  out += bytes;
}

std::string DotBox(const std::string& name, const std::string& label) {
  return "  \"" + name + "\" [label=\"" + label + "\"];\n";
}

std::string DotArrow(const std::string& from, const std::string& to, const std::string& style) {
  return "  \"" + from + "\" -> \"" + to + "\"" + style + ";\n";
}

}  // namespace

std::string GraphDot(const NetSpec& spec) {
  std::string dot = "digraph \"" + spec.name + "\" {\n  rankdir=BT;\n  node [shape=box];\n";
  dot += DotBox("images", "images\\n" + ShapeText(spec.input));
  std::string below = "images", back;
  for (const Layer& layer : spec.layers) {
    std::string label =
        layer.name + "\\n" + LayerKindName(layer.kind) + " -> " + ShapeText(layer.out);
    if (layer.has_params()) {
      label += "\\n" + std::to_string(layer.weight_size() + layer.out.channels) + " parameters";
    }
    dot += DotBox(layer.name, label);
    dot += DotArrow(below, layer.name, "");
    if (below != "images") back += DotArrow(layer.name, below, " [style=dashed, color=gray]");
    below = layer.name;
  }
  dot += DotBox("loss", "softmax cross-entropy");
  dot += DotBox("labels", "labels");
  dot += DotArrow(below, "loss", "") + DotArrow("labels", "loss", "");
  dot += DotArrow("loss", below, " [style=dashed, color=gray]");
  return dot + back + "}\n";
}

std::string GraphDef(const NetSpec& spec) {
  std::string graph;
  for (const Node& node : Nodes(spec)) {
    std::string message;
    AppendField(1, node.name, message);
    AppendField(2, node.op, message);
    for (const std::string& input : node.inputs) AppendField(3, input, message);
    AppendField(1, message, graph);
  }
  return graph;
}

}  // namespace millrace::convnets
