// Notices input whose keys are not those of the model.
#pragma once

#include <cstdint>
#include <string>

#include "io/batch/csr_batch.h"
#include "trainer/model/model.h"

namespace millrace::tools {

// Counts the entries without a weight in a sample of the batches: the first and every 64th, which
// costs about a hundredth of scoring.
class UnknownKeys {
 public:
  void Look(const trainer::Model& model, const io::CsrBatch& batch);
  // What to tell a user whose keys are nearly all unknown; empty where they are not, or where too
  // few rows were seen to say.
  std::string Warning() const;

 private:
  uint64_t batches_ = 0;  // all of them; the rest is of those that were looked at
  uint64_t rows_ = 0;
  uint64_t entries_ = 0;
  uint64_t unknown_ = 0;
};

}  // namespace millrace::tools
