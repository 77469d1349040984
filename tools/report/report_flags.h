// The command line of millrace-report, as options.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/common/flags.h"
#include "tools/report/diagnosis.h"

namespace millrace::tools {

const CommandSpec& ReportSpec();

struct ReportOptions {
  Limits limits;
  size_t max_spans = 0;
  size_t top_ops = 0;  // rows of the table; 0: all
  bool json = false;   // the verdict alone
  bool write_html = true;
  bool write_trace = true;
};

Result<ReportOptions> ReportOptionsFromFlags();

}  // namespace millrace::tools
