// The command line of millrace-predict.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/common/flags.h"
#include "tools/predict/score.h"
#include "tools/predict/top_weights.h"
#include "trainer/model/model_info.h"

namespace millrace::predict {

const tools::CommandSpec& PredictSpec();

// Checks the flags before any work: an error for impossible or contradictory ones.
Status CheckFlags(const tools::Args& args);

std::string ModelPathFromFlags();
// Sets the input flags that the command line does not give to their values in training, if the run
// of the model is known. Returns a text that lists them; empty: none.
std::string UseTrainingFlags(const tools::Args& args);
bool IsTopRequested();
TopOptions TopOptionsFromFlags();
// The input must have the keys of the model that `info` describes.
Result<ScoreOptions> ScoreOptionsFromFlags(const tools::Args& args, const trainer::ModelInfo& info);

}  // namespace millrace::predict
