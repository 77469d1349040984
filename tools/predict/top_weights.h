// The largest weights of a model, with the names of their features.
#pragma once

#include <cstddef>
#include <string>

#include "io/base/status.h"
#include "trainer/model/model.h"

namespace millrace::predict {

struct TopOptions {
  size_t count = 10;
  std::string vocabulary = {};  // a Criteo vocabulary file; empty: no names
  std::string out = "-";
};

// Writes lines of key, weight and name (if there is a vocabulary), separated by tabs, the largest
// magnitude first. A vocabulary with a different num_features is an error.
Status WriteTopWeights(const trainer::Model& model, const TopOptions& options);

}  // namespace millrace::predict
