// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/net_spec.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace millrace::convnets
