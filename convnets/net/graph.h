// SPDX-License-Identifier: Apache-2.0
// Drawings of a net's computation graph.
#pragma once

#include <string>

#include "convnets/net/net_spec.h"

namespace millrace::convnets {

// For Graphviz: `dot -Tsvg graph.dot`. Layers with their output shapes and parameters, the loss,
// and the backward pass.
std::string GraphDot(const NetSpec& spec);

// For TensorBoard: a GraphDef message of nodes (name, op, inputs).
//
//   GraphDef  1: NodeDef, one for each layer
//   NodeDef   1: name   2: op   3: input, one for each
std::string GraphDef(const NetSpec& spec);

}  // namespace millrace::convnets
