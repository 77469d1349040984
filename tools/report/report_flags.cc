#include "tools/report/report_flags.h"

#include <gflags/gflags.h>

DEFINE_bool(html, true, "write RUN_DIR/report.html");
DEFINE_bool(merge, true, "write RUN_DIR/trace-all.json.gz, all processes on one time axis");
DEFINE_bool(json, false, "print the verdict as JSON, and nothing else");
DEFINE_uint64(max_spans, 1500000, "spans in the page's timeline; of a longer trace the beginning");
DEFINE_uint64(ops, 0, "rows of the op table; 0: all");
DEFINE_double(network_gbit, 0, "the network's limit in Gbit/s, to compare with; 0: not stated");
DEFINE_double(disk_mb, 0, "the disk's limit in MB/s, to compare with; 0: not stated");

namespace millrace::tools {

const CommandSpec& ReportSpec() {
  static const CommandSpec spec = {
      .name = "millrace-report",
      .job = "says what a run spent its time on, and draws it",
      .arguments = "RUN_DIR...",
      .groups = {{"What it writes", {"html", "merge", "json", "max_spans", "ops"}},
                 {"Limits", {"network_gbit", "disk_mb"}}},
      .examples = {"millrace-report runs/1", "millrace-report runs/sync runs/async --nohtml"}};
  return spec;
}

Result<ReportOptions> ReportOptionsFromFlags() {
  if (FLAGS_network_gbit < 0 || FLAGS_disk_mb < 0)
    return Invalid("--network_gbit and --disk_mb: expected no negative number");
  ReportOptions options;
  options.limits = {.network_bytes_per_s = FLAGS_network_gbit * 1e9 / 8,
                    .disk_bytes_per_s = FLAGS_disk_mb * 1e6};
  options.max_spans = FLAGS_max_spans;
  options.top_ops = FLAGS_ops;
  options.json = FLAGS_json;
  options.write_html = FLAGS_html;
  options.write_trace = FLAGS_merge;
  return options;
}

}  // namespace millrace::tools
