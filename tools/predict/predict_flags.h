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

// The flags that contradict each other or cannot be, before any work.
Status CheckFlags(const tools::Args& args);

std::string ModelPathFromFlags();
// Lets the flags that say how to read the input be those of the training, where the model's run is
// known and the command line does not give them. Returns a text that lists them; empty: none.
std::string TakeTrainingFlags(const tools::Args& args);
bool TopIsAskedFor();
TopOptions TopOptionsFromFlags();
// What is read has the keys of the model of `info`.
Result<ScoreOptions> ScoreOptionsFromFlags(const tools::Args& args, const trainer::ModelInfo& info);

}  // namespace millrace::predict
