#include "convnets/net/net_spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convnets/net/graph.h"
#include "convnets/net/params.h"

namespace millrace::convnets {
namespace {

Shape OutputOf(const NetSpec& net, const std::string& name) {
  for (const Layer& layer : net.layers) {
    if (layer.name == name) return layer.out;
  }
  ADD_FAILURE() << "no layer " << name;
  return {};
}

TEST(NetSpec, LeNetHasItsPublishedShapes) {
  const NetSpec net = *MakeNet({.name = "lenet"});
  EXPECT_EQ(OutputOf(net, "conv1"), (Shape{6, 28, 28}));
  EXPECT_EQ(OutputOf(net, "pool1"), (Shape{6, 14, 14}));
  EXPECT_EQ(OutputOf(net, "conv2"), (Shape{16, 10, 10}));
  EXPECT_EQ(OutputOf(net, "pool2"), (Shape{16, 5, 5}));
  EXPECT_EQ(net.parameters(), 61'706u);
}

TEST(NetSpec, AlexNetHasItsPublishedShapes) {
  const NetSpec net = *MakeNet({.name = "alexnet"});
  EXPECT_EQ(OutputOf(net, "conv1"), (Shape{96, 55, 55}));
  EXPECT_EQ(OutputOf(net, "pool1"), (Shape{96, 27, 27}));
  EXPECT_EQ(OutputOf(net, "pool2"), (Shape{256, 13, 13}));
  EXPECT_EQ(OutputOf(net, "pool5"), (Shape{256, 6, 6}));
  EXPECT_EQ(net.classes(), 1000u);
  EXPECT_EQ(net.parameters(), 60'965'224u);
}

TEST(NetSpec, UnknownNetsAndClassesAreRefused) {
  EXPECT_EQ(MakeNet({.name = "vgg"}).status().message(),
            "net: expected softmax, lenet or alexnet, found 'vgg'");
  EXPECT_FALSE(MakeNet({.name = "lenet", .num_classes = 1}).ok());
  EXPECT_EQ(MakeNet({.name = "softmax", .num_classes = 7})->classes(), 7u);
}

double Deviation(std::span<const float> numbers) {
  double squares = 0;
  for (const float x : numbers) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares / static_cast<double>(numbers.size()));
}

TEST(Params, InitialWeightsHaveTheirSpread) {
  const NetSpec net = *MakeNet({.name = "lenet"});
  Params params(net);
  const size_t fc3 = 4;
  ASSERT_EQ(params.all()[fc3].name, "fc3.weight");
  params.Initialize(Init::kHe, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), std::sqrt(2.0 / 400), 0.001);
  EXPECT_EQ(Deviation(params.weights(fc3 + 1)), 0);
  params.Initialize(Init::kXavier, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), std::sqrt(2.0 / 520), 0.001);
  params.Initialize(Init::kNormal, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), 1, 0.02);
  EXPECT_GT(Deviation(params.weights(fc3 + 1)), 0.5);
}

TEST(Params, SeedDecidesAll) {
  const NetSpec net = *MakeNet({.name = "softmax"});
  Params a(net), b(net), c(net);
  a.Initialize(Init::kHe, 1);
  b.Initialize(Init::kHe, 1);
  c.Initialize(Init::kHe, 2);
  EXPECT_TRUE(std::ranges::equal(a.weights(0), b.weights(0)));
  EXPECT_FALSE(std::ranges::equal(a.weights(0), c.weights(0)));
}

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
