// SPDX-License-Identifier: Apache-2.0
// WriteMergedTrace: all processes of a run in one file.
#include <cinttypes>
#include <cstdio>

#include "io/base/json.h"
#include "io/record/compressor.h"
#include "io/record/output_file.h"
#include "tools/report/run_data.h"

namespace millrace::report {
namespace {

constexpr size_t kPiece = 1 << 20;

// Collects text and writes it compressed.
class GzipFile {
 public:
  static Result<GzipFile> Create(const std::string& path) {
    ASSIGN_OR_RETURN(auto file, io::OutputFile::Create(path, io::AtPath::kReplace));
    ASSIGN_OR_RETURN(auto gzip, io::MakeCompressor(io::Compression::kGzip, 1));
    return GzipFile(std::move(file), std::move(gzip));
  }

  std::string& text() { return text_; }

  Status WriteIfFull() { return text_.size() < kPiece ? Status() : Flush(); }

  Status Finish() {
    RETURN_IF_ERROR(Flush());
    RETURN_IF_ERROR(gzip_->Finish(packed_));
    RETURN_IF_ERROR(file_.Write({packed_.data(), packed_.size()}));
    return file_.Commit();
  }

 private:
  GzipFile(io::OutputFile file, std::unique_ptr<io::Compressor> gzip)
      : file_(std::move(file)), gzip_(std::move(gzip)) {}

  Status Flush() {
    RETURN_IF_ERROR(gzip_->Add(text_, packed_));
    text_.clear();
    RETURN_IF_ERROR(file_.Write({packed_.data(), packed_.size()}));
    packed_.clear();
    return {};
  }

  io::OutputFile file_;
  std::unique_ptr<io::Compressor> gzip_;
  RawBuffer packed_;
  std::string text_;
};

// The events of one process, with `pid` as its id: real ids may be equal on several hosts.
class EventWriter {
 public:
  EventWriter(const RunData& run, const ProcessData& process, size_t pid, std::string& out)
      : run_(run), process_(process), pid_(pid), out_(out) {}

  void Name(const char* what, int64_t tid, const std::string& name) {
    Begin("M", "__metadata", what, tid);
    out_ += ",\"args\":{\"name\":";
    Quote(name);
    out_ += "}},\n";
  }

  void Event(const Span& span, int64_t tid) {
    Begin("X", profiler::CatName(span.cat), run_.names[span.name], tid);
    Time("ts", span.begin_ns);
    Time("dur", span.duration_ns());
    out_ += ",\"args\":{";
    for (uint32_t i = 0; i < span.num_args; ++i) {
      const SpanArg& arg = process_.args[span.first_arg + i];
      if (i > 0) out_ += ',';
      Quote(run_.names[arg.name]);
      out_ += ":" + std::to_string(arg.value);
    }
    out_ += "}},\n";
  }

  void Event(const CounterSample& sample) {
    Begin("C", "counter", run_.names[sample.name], 0);
    Time("ts", sample.time_ns);
    out_ += ",\"args\":{\"value\":" + std::to_string(sample.value) + "}},\n";
  }

  void Event(const Flow& flow) {
    Begin(flow.out ? "s" : "f", "flow", "exchange", flow.tid);
    Time("ts", flow.time_ns);
    char id[40];
    std::snprintf(id, sizeof id, ",\"id\":\"0x%" PRIx64 "\"", flow.id);
    out_ += id;
    out_ += flow.out ? ",\"args\":{}},\n" : ",\"bp\":\"e\",\"args\":{}},\n";
  }

 private:
  void Begin(const char* ph, const char* cat, const std::string& name, int64_t tid) {
    out_ += std::string("{\"ph\":\"") + ph + "\",\"cat\":\"" + cat + "\",\"name\":";
    Quote(name);
    out_ += ",\"pid\":" + std::to_string(pid_) + ",\"tid\":" + std::to_string(tid);
  }
  void Time(const char* key, int64_t ns) {
    char text[64];
    std::snprintf(text, sizeof text, ",\"%s\":%.3f", key, static_cast<double>(ns) / 1e3);
    out_ += text;
  }
  void Quote(const std::string& text) { JsonWriter(out_).String(text); }

  const RunData& run_;
  const ProcessData& process_;
  size_t pid_;
  std::string& out_;
};

}  // namespace

Status WriteMergedTrace(const RunData& run, const std::string& path) {
  ASSIGN_OR_RETURN(GzipFile file, GzipFile::Create(path));
  file.text() += "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (size_t p = 0; p < run.processes.size(); ++p) {
    const ProcessData& process = run.processes[p];
    EventWriter writer(run, process, p + 1, file.text());
    writer.Name("process_name", 0, process.name);
    for (const TracedThread& thread : process.threads) {
      if (!thread.name.empty()) writer.Name("thread_name", thread.tid, thread.name);
      for (const Span& span : thread.spans) {
        writer.Event(span, thread.tid);
        RETURN_IF_ERROR(file.WriteIfFull());
      }
    }
    for (const CounterSample& sample : process.counters) {
      writer.Event(sample);
      RETURN_IF_ERROR(file.WriteIfFull());
    }
    for (const Flow& flow : process.flows) {
      writer.Event(flow);
      RETURN_IF_ERROR(file.WriteIfFull());
    }
  }
  // Strict parsers accept no comma after the last event.
  file.text() +=
      "{\"ph\":\"M\",\"cat\":\"__metadata\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,"
      "\"args\":{\"name\":\"\"}}\n]}\n";
  return file.Finish();
}

}  // namespace millrace::report
