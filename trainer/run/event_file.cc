// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/event_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "io/example/wire.h"
#include "io/record/record_writer.h"

namespace millrace::trainer {
namespace {

using io::WireType;

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void AppendTag(uint32_t number, WireType type, std::string& out) {
  AppendVarint(io::WireTag(number, type), out);
}

template <typename T>
void AppendFixed(uint32_t number, T value, std::string& out) {
  AppendTag(number, sizeof value == 8 ? WireType::kFixed64 : WireType::kFixed32, out);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendUint(uint32_t number, uint64_t value, std::string& out) {
  AppendTag(number, WireType::kVarint, out);
  AppendVarint(value, out);
}

void AppendBytes(uint32_t number, std::string_view bytes, std::string& out) {
  AppendTag(number, WireType::kBytes, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

// A step of 0 is left out, as protobuf does with defaults.
std::string EventHead(double wall_time_s, uint64_t step) {
  std::string event;
  AppendFixed(1, wall_time_s, event);
  if (step != 0) AppendUint(2, step, event);
  return event;
}

std::string VersionEvent(double wall_time_s) {
  std::string event = EventHead(wall_time_s, 0);
  AppendBytes(3, "brain.Event:2", event);
  return event;
}

std::string StartEvent(double wall_time_s, uint64_t first_step) {
  std::string session;
  AppendUint(1, 1, session);
  std::string event = EventHead(wall_time_s, first_step);
  AppendBytes(7, session, event);
  return event;
}

std::string SummaryEvent(double wall_time_s, uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    AppendBytes(1, scalar.tag, value);
    AppendFixed(2, scalar.value, value);
    AppendBytes(1, value, summary);
  }
  std::string event = EventHead(wall_time_s, step);
  AppendBytes(5, summary, event);
  return event;
}

std::string FreeName(const EventFileOptions& options) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(options.wall_time_s));
  std::string host = options.host;
  std::replace(host.begin(), host.end(), '/', '_');
  const std::string first = options.folder + "/events.out.tfevents." + seconds + "." + host;
  std::string name = first;
  std::error_code ignored;
  for (int n = 1; std::filesystem::exists(name, ignored); ++n) {
    name = first + "." + std::to_string(n);
  }
  return name;
}

}  // namespace

Result<EventFile> EventFile::Create(const EventFileOptions& options) {
  ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(FreeName(options)));
  std::string records;
  io::AppendFrame(VersionEvent(options.wall_time_s), records);
  // TensorBoard takes a run's first session start as no more than that: only a later one drops
  // steps.
  const uint64_t first_step = options.resume_step ? *options.resume_step + 1 : 0;
  io::AppendFrame(StartEvent(options.wall_time_s, first_step), records);
  RETURN_IF_ERROR(file.Append(records));
  return EventFile(std::move(file));
}

Status EventFile::Add(double wall_time_s, uint64_t step, std::span<const Scalar> scalars) {
  std::string record;
  io::AppendFrame(SummaryEvent(wall_time_s, step, scalars), record);
  return file_.Append(record);
}

Status EventFile::AddGraph(double wall_time_s, std::string_view graph_def) {
  std::string event = EventHead(wall_time_s, 0);
  AppendBytes(4, graph_def, event);
  std::string record;
  io::AppendFrame(event, record);
  return file_.Append(record);
}

}  // namespace millrace::trainer
