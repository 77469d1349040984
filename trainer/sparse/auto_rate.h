// SPDX-License-Identifier: Apache-2.0
// What a run decides from its first rows, before it starts: whether and how values are normalised,
// the batch size, the first intercept and the learning rate.
#pragma once

#include <cstddef>
#include <vector>

#include "io/base/status.h"
#include "trainer/run/run_info.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

// Reads the first rows, shuffled by the seed of the run.
//
// Normalize::kAuto: values are normalised if there are any but ones. Features with different values
// in most rows are also centered at their mean, if the model has an intercept. If rows come in the
// order of files, it is the mean of the first file.
// Batch size: fewer rows than 100 if the data is small, so that a pass has some hundred steps.
// Rate 0: the intercept starts at the log-odds of the labels, and the rate is the best one of a
// small grid. Each rate trains a model of its own on the same rows, and the progressive losses
// decide (ChooseTrial). Several epochs over less than 5,000 rows would overfit at that rate: then
// each rate trains as many passes on three quarters of the rows and is judged by the others, four
// times, so that each row is held out once.
//
// The choice depends on the data, the seed, the update options and, for such small data, the
// epochs, and not on threads, servers or workers: every worker of a job and a resumed run choose
// the same. The rows are about 0.5 % of the data, or some thousand. Files that cannot be read twice
// leave the defaults, and so do first rows of one class, unless they are all.
Result<StartChoice> ChooseStart(const TrainOptions& options);
// The same for a run that continues, with the update options and the batch size of the earlier run.
// They stay, but if all values were ones so far, a run on other values is normalised from now on.
// kInvalid: options.normalize asks for what the earlier run's state does not allow.
Result<StartChoice> ChooseContinuedStart(TrainOptions options);
// Sets what was chosen.
void ApplyStart(const StartChoice& choice, TrainOptions& options);

// Rows per step of a run on `rows` rows whose batch size is not given: 100, or fewer so that a pass
// has some hundred steps.
size_t AutoBatchSize(double rows);

// `losses` has one list per rate, in the order of rates, with the mean loss of each batch before
// its step; a list that is shorter than the longest diverged. Large rates win at the beginning of a
// run and lose later, so the first quarter does not count. Returns the rate nearest to `middle`
// that is not significantly worse than the best one: by at most two standard errors of the paired
// difference, or by at most the share `tolerance`.
size_t ChooseTrial(const std::vector<std::vector<double>>& losses, size_t middle,
                   double tolerance = 0);

}  // namespace millrace::trainer
