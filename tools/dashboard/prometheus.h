// The newest numbers of a run in Prometheus' text form.
#pragma once

#include <string>

#include "tools/report/run_data.h"

namespace millrace::tools {

std::string PrometheusText(const RunData& run);

}  // namespace millrace::tools
