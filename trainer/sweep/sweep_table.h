// SPDX-License-Identifier: Apache-2.0
// The result of a sweep as a table: sweep.csv (docs/formats.md), and for people.
#pragma once

#include <string>
#include <vector>

#include "trainer/sweep/sweep_grid.h"
#include "trainer/sweep/sweep_trainer.h"

namespace millrace::trainer {

// One line per configuration, numbered from 1, in the order of `configs`. Cells without a number
// are empty.
std::string SweepCsv(const std::vector<SweepConfig>& configs, const std::vector<SweptModel>& models,
                     const SweepResult& result);

// The same with the columns that fit on a line, the best model first.
std::string SweepText(const std::vector<SweepConfig>& configs,
                      const std::vector<SweptModel>& models, const SweepResult& result);

// "--learning_rate=0.1 --l1=1"
std::string SweepFlags(const SweepConfig& config);

}  // namespace millrace::trainer
