// The files of a run folder: traces and resource samples of its processes.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/report/run_data.h"

namespace millrace::report {

// The trace of all processes is trace-all.json.gz.
inline constexpr std::string_view kMergedTrace = "all";

// Reads a Chrome trace (plain or compressed) into `process`. Times are on the common clock.
Status ReadTraceFile(const std::string& path, NameTable& names, ProcessData& process);

// The same from text in memory.
Status ReadTraceText(std::string_view text, const std::string& path, NameTable& names,
                     ProcessData& process);

// Writes all processes on one axis as Chrome trace JSON, compressed with gzip.
Status WriteMergedTrace(const RunData& run, const std::string& path);

// Reads resources-*.csv: adds the samples to `process`. A last line without its line end (the
// process is still writing, or was killed) is left out.
Status ReadResourceFile(const std::string& path, ProcessData& process);

}  // namespace millrace::report
