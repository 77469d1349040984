// What the run that made a model says about its input.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

// Sets those of the flags `names` that the command line did not give to what the training had, if
// `model` is a run folder or lies in one. Returns those that it set, as "--hash_bits=20
// --index_base=1 (R/run.json)"; empty: none. What the training left at "nothing said" (0, auto,
// false, empty) stays as it is.
std::string TakeRunFlags(const std::string& model, const std::vector<std::string>& names);

}  // namespace millrace::tools
