// SPDX-License-Identifier: Apache-2.0
// The layers of a net and their shapes. Engines (net.h) compute it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::convnets {

// The shape of one image or of one layer's output: [channels][height][width].
struct Shape {
  size_t channels = 1, height = 1, width = 1;

  size_t size() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};
std::string ShapeText(const Shape& shape);  // "6x28x28"; "120" for a plain vector

enum class LayerKind { kConv, kRelu, kMaxPool, kLrn, kFullyConnected, kDropout };
const char* LayerKindName(LayerKind kind);  // "conv", "relu", "max_pool", "lrn", "fc", "dropout"

// A window that slides over the image: output (y, x) sees rows y * stride - pad to that + kernel.
struct Window {
  size_t kernel = 1, stride = 1, pad = 0;

  size_t OutputSize(size_t input) const { return (input + 2 * pad - kernel) / stride + 1; }
};

// y = x (k + alpha / size * sum of x^2 over `size` channels around)^-beta
struct LrnNumbers {
  size_t size = 5;
  float k = 2, alpha = 1e-4f, beta = 0.75f;
};

struct Layer {
  std::string name;
  LayerKind kind = LayerKind::kRelu;
  Shape in, out;
  Window window = {};    // kConv, kMaxPool
  size_t groups = 1;     // kConv
  LrnNumbers lrn = {};   // kLrn
  double drop_rate = 0;  // kDropout

  bool has_params() const { return kind == LayerKind::kConv || kind == LayerKind::kFullyConnected; }
  // A convolution's weights are [out][in / groups][kernel][kernel], a fully connected layer's
  // [out][in]; the bias is [out].
  size_t fan_in() const;
  size_t weight_size() const { return out.channels * fan_in(); }
};

// Every net ends with softmax cross-entropy over the last layer's outputs.
struct NetSpec {
  std::string name;
  Shape input;
  std::vector<Layer> layers;

  size_t classes() const { return layers.back().out.size(); }
  size_t parameters() const;
};

struct NetOptions {
  std::string name = "lenet";  // softmax, lenet, alexnet
  size_t num_classes = 0;      // 0: 10 for softmax and lenet, 1,000 for alexnet
};

//   softmax   fully connected 784 -> classes
//   lenet     LeNet-5 (LeCun et al. 1998) with ReLU and max pooling:
//             6@5x5 (padded), 16@5x5, 120, 84, classes
//   alexnet   Krizhevsky et al. 2012: 227x227, two groups, LRN, overlapping pooling, dropout
Result<NetSpec> MakeNet(const NetOptions& options);

// Adds layers one by one; each has the output of the previous one as its input.
class NetBuilder {
 public:
  NetBuilder(std::string name, Shape input) : spec_{std::move(name), input, {}} {}

  NetBuilder& Conv(const std::string& name, size_t channels, Window window, size_t groups = 1);
  NetBuilder& Relu(const std::string& name);
  NetBuilder& MaxPool(const std::string& name, Window window);
  NetBuilder& Lrn(const std::string& name, LrnNumbers numbers = {});
  NetBuilder& FullyConnected(const std::string& name, size_t outputs);
  NetBuilder& Dropout(const std::string& name, double rate);

  NetSpec Build() const { return spec_; }

 private:
  Shape Top() const { return spec_.layers.empty() ? spec_.input : spec_.layers.back().out; }
  NetBuilder& Add(Layer layer);

  NetSpec spec_;
};

}  // namespace millrace::convnets
