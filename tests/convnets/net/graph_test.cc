// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/graph.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::convnets {
namespace {

TEST(Graph, DotNamesEveryLayerWithItsShape) {
  const std::string dot = GraphDot(*MakeNet({.name = "lenet"}));
  EXPECT_TRUE(dot.starts_with("digraph \"lenet\" {\n")) << dot;
  EXPECT_NE(dot.find("conv2\\nconv -> 16x10x10\\n2416 parameters"), std::string::npos) << dot;
  EXPECT_NE(dot.find("\"pool2\" -> \"fc3\";"), std::string::npos) << dot;
}

TEST(Graph, DefIsAMessageOfNodes) {
  const std::string def = GraphDef(*MakeNet({.name = "softmax"}));
  const std::string node = std::string("\x0a\x02") + "fc" + "\x12\x02" + "fc" + "\x1a\x06" +
                           "images" + "\x1a\x09" + "fc/weight" + "\x1a\x07" + "fc/bias";
  EXPECT_NE(def.find(std::string("\x0a") + static_cast<char>(node.size()) + node),
            std::string::npos);
}

}  // namespace
}  // namespace millrace::convnets
