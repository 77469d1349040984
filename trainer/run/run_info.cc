// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/run_info.h"

#include <time.h>

#include <charconv>
#include <cmath>

#include "io/base/json.h"
#include "trainer/run/metrics_row.h"

namespace millrace::trainer {
namespace {

constexpr std::string_view kStart = "{\"status\":\"";

void WriteString(std::string_view name, std::string_view value, JsonWriter& json) {
  json.Key(name);
  json.String(value);
}

void WriteUint(std::string_view name, uint64_t value, JsonWriter& json) {
  json.Key(name);
  json.Uint(value);
}

// "2026-11-16T05:03:47Z"
std::string TimeText(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  tm parts = {};
  gmtime_r(&whole, &parts);
  char text[40];
  return {text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void WriteHost(const HostInfo& host, JsonWriter& json) {
  json.Key("host");
  json.BeginObject();
  WriteString("name", host.name, json);
  WriteString("cpu", host.cpu, json);
  WriteUint("cores", host.cores, json);
  WriteUint("memory_bytes", host.memory_bytes, json);
  json.EndObject();
}

void WriteFlags(const RunInfo& info, JsonWriter& json) {
  json.Key("flags");
  json.BeginObject();
  for (const auto& [name, value] : info.flags) WriteString(name, value, json);
  json.EndObject();
}

void WriteNumber(std::string_view name, double value, JsonWriter& json) {
  json.Key(name);
  std::isfinite(value) ? json.Double(value) : json.Null();
}

void WriteStart(const StartChoice& start, JsonWriter& json) {
  json.Key("learning_rate");
  json.BeginObject();
  WriteNumber("rate", start.rate, json);
  json.Key("trials");
  json.BeginArray();
  for (const RateTrial& trial : start.trials) {
    json.BeginObject();
    WriteNumber("rate", trial.rate, json);
    WriteNumber("loss", trial.loss, json);
    json.EndObject();
  }
  json.EndArray();
  WriteUint("rows", start.rows, json);
  WriteUint("passes", start.passes, json);
  json.EndObject();
  WriteUint("normalize", start.normalize ? 1 : 0, json);
  WriteUint("centered_features", start.centers.size(), json);
  WriteUint("batch_size", start.batch_size, json);
}

void WriteInfo(const RunInfo& info, JsonWriter& json) {
  WriteString("program", info.program, json);
  WriteString("version", info.version, json);
  WriteString("start_time", TimeText(info.start_time_s), json);
  json.Key("pid");
  json.Int(info.pid);
  WriteUint("seed", info.seed, json);
  if (info.resumed_step) WriteUint("resumed_step", *info.resumed_step, json);
  WriteHost(info.host, json);
  WriteFlags(info, json);
  if (info.start) WriteStart(*info.start, json);
}

void WriteBest(const BestEvaluation& best, JsonWriter& json) {
  json.Key("best");
  json.BeginObject();
  WriteString("metric", best.metric, json);
  WriteUint("step", best.step, json);
  WriteUint("examples", best.examples, json);
  json.Key("metrics");
  json.Json(best.metrics);
  json.EndObject();
}

void WriteEnd(const RunEnd& end, double start_time_s, JsonWriter& json) {
  if (!end.message.empty()) WriteString("message", end.message, json);
  WriteString("end_time", TimeText(end.end_time_s), json);
  json.Key("seconds");
  json.Double(std::round((end.end_time_s - start_time_s) * 1000) / 1000);
  if (end.steps > 0) WriteUint("steps", end.steps, json);
  json.Key("metrics");
  json.Json(MetricsJson(end.metrics));
  if (end.best) WriteBest(*end.best, json);
  json.Key("warnings");
  json.BeginArray();
  for (const std::string& warning : end.warnings) json.String(warning);
  json.EndArray();
}

// Between the quotes of a JSON string.
std::string Escaped(const std::string& text) {
  std::string json;
  JsonWriter(json).String(text);
  return json.substr(1, json.size() - 2);
}

// What stands between the quotes of the string at the beginning of `json`, behind the first quote.
std::string_view EscapedString(std::string_view json) {
  size_t end = 0;
  while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
  return json.substr(0, end);
}

// Behind the first `key`; empty where it is not.
std::string_view Behind(std::string_view json, std::string_view key) {
  const size_t at = json.find(key);
  return at == json.npos ? std::string_view() : json.substr(at + key.size());
}

}  // namespace

std::string_view RunStatusName(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning:
      return "running";
    case RunStatus::kFinished:
      return "finished";
    case RunStatus::kFailed:
      return "failed";
    case RunStatus::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

std::string RunJson(const RunInfo& info, const std::optional<RunEnd>& end) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  WriteString("status", RunStatusName(end ? end->status : RunStatus::kRunning), json);
  WriteInfo(info, json);
  if (end) WriteEnd(*end, info.start_time_s, json);
  json.EndObject();
  return text + "\n";
}

std::string StatusInRunJson(std::string_view json) {
  if (!json.starts_with(kStart)) return "";
  json.remove_prefix(kStart.size());
  return std::string(json.substr(0, json.find('"')));
}

uint64_t StepsInRunJson(std::string_view json) {
  const std::string_view number = Behind(Behind(json, "\"end_time\":"), "\"steps\":");
  uint64_t steps = 0;
  std::from_chars(number.data(), number.data() + number.size(), steps);
  return steps;
}

std::vector<FlagChange> ChangedFlags(
    std::string_view json, const std::vector<std::pair<std::string, std::string>>& flags) {
  std::vector<FlagChange> changes;
  const std::string_view there = Behind(json, "\"flags\":{");
  for (const auto& [name, value] : flags) {
    const std::string_view text = Behind(there, "\"" + name + "\":\"");
    if (text.empty() || EscapedString(text) == Escaped(value)) continue;
    changes.push_back({name, std::string(EscapedString(text)), value});
  }
  return changes;
}

}  // namespace millrace::trainer
