// Reads resources-*.csv.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/report/run_data.h"

namespace millrace::tools {

// Adds the samples to `process`. A last line without its end (the process still writes, or was
// killed) is left out.
Status ReadResourceFile(const std::string& path, ProcessData& process);

// How a column changed per second, between neighbouring samples; one shorter than the column.
std::vector<double> Rates(const ProcessData& process, std::string_view column);

}  // namespace millrace::tools
