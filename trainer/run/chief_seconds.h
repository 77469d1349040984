// How the workers of a job stop together.
#pragma once

namespace millrace::trainer {

// That a worker which was asked to stop gives the chief, who was asked as well if the whole job
// was, to end the job for all: longer than the chief gives to a step that is under way. Then the
// worker leaves the job, which takes it for lost.
constexpr double kChiefSeconds = 8;

}  // namespace millrace::trainer
