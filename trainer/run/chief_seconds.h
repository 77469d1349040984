// How the workers of a job stop together.
#pragma once

namespace millrace::trainer {

// That a worker which was asked to stop gives the chief, who was asked as well if the whole job
// was, to end the job for all. It covers a slow step of a large net; then the worker goes alone.
constexpr double kChiefSeconds = 5;

}  // namespace millrace::trainer
