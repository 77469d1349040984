// The words of a diagnosis: its sentence, its evidence, and the table of each worker's time.
#pragma once

#include <string>
#include <vector>

#include "tools/report/bottleneck.h"
#include "tools/report/diagnosis.h"

namespace millrace::report {

// "Input-bound: 61.2 % of the time ...". `diagnosis` has all but sentence and evidence.
std::string Sentence(const RunData& run, const Diagnosis& diagnosis,
                     const std::vector<ServerLoad>& servers);

// Why a run without traced steps has no diagnosis.
std::string NoStepsSentence(const RunData& run);

// Which part of the run the traces cover, where that is not all of it.
std::vector<std::string> TraceBounds(const RunData& run, const std::vector<StepBreakdown>& workers);

// TraceBounds, then predicted and measured step time, traffic, and the use of the machine.
// `num_workers`: how many diagnosis.breakdown is the mean of.
std::vector<std::string> Evidence(const RunData& run, const Diagnosis& diagnosis,
                                  size_t num_workers, const Limits& limits);

// One row for each part of a step, three columns for each worker.
std::string BreakdownText(const Diagnosis& diagnosis);

}  // namespace millrace::report
