// SPDX-License-Identifier: Apache-2.0
// Rows like Criteo's (a label, 13 integers, 26 texts of 8 digits) in a Parquet file, through
// DuckDB: to rows, and through a feature spec of 39 hashed fields to shuffled batches of 1000. The
// same rows as CSV for comparison. Needs data/duckdb/libduckdb.so (tools/get_duckdb.sh).
#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <string>

#include "io/queue/input_queue.h"
#include "io/table/table_reader.h"

namespace millrace::io {
namespace {

constexpr size_t kRows = 300000;
constexpr char kLibrary[] = MILLRACE_SOURCE_DIR "/data/duckdb/libduckdb.so";

// The rows, about as skewed as Criteo's; one missing value in five and in ten.
std::string RowsQuery() {
  std::string columns = "i % 4 = 0 AS positive, CAST(i % 4 = 0 AS INT) AS label";
  for (int c = 1; c <= 39; ++c) {
    const std::string n = std::to_string(c), hash = "hash(i * 64 + " + n + ")";
    const std::string skewed = "(pow(" + hash + " % 100000 / 100000.0, 4) * ";
    columns += c <= 13 ? ", CASE WHEN " + hash + " % 5 > 0 THEN CAST(" + skewed +
                             "10000) AS INT) END AS I" + n
                       : ", CASE WHEN " + hash + " % 10 > 0 THEN lpad(lower(to_hex(CAST(" + skewed +
                             "100000) AS BIGINT) * 40503 % 4294967296)), 8, '0') END AS C" + n;
  }
  return "SELECT " + columns + " FROM range(" + std::to_string(kRows) + ") t(i)";
}

// Made once a process.
class Files {
 public:
  static const Files& Get() {
    static const Files files;
    return files;
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  bool ok() const { return duckdb_ != nullptr; }
  std::string parquet() const { return folder_ / "rows.parquet"; }
  std::string csv() const { return folder_ / "rows.csv"; }

 private:
  Files() : folder_(std::filesystem::temp_directory_path() / "millrace_table_bench") {
    const auto loaded = LoadDuckDb(kLibrary);
    if (!loaded.ok()) return;
    std::filesystem::create_directories(folder_);
    const std::string source = "sql:SET threads = 2; COPY (" + RowsQuery() + ") TO '" + parquet() +
                               "' (FORMAT parquet); COPY (FROM '" + parquet() + "') TO '" + csv() +
                               "' (FORMAT csv, HEADER); SELECT 1";
    if (TableQuery::Open(*loaded, source, {}).ok()) duckdb_ = *loaded;
  }
  std::filesystem::path folder_;
  std::shared_ptr<const DuckDbApi> duckdb_;
};

FeatureSpec MakeSpec() {
  FeatureSpec spec = {.hash_bits = 24};
  for (int c = 1; c <= 39; ++c) {
    const std::string name = (c <= 13 ? "I" : "C") + std::to_string(c);
    spec.fields.push_back({.name = name, .column = name});
  }
  return spec;
}

void BM_TableRows(benchmark::State& state) {
  const Files& files = Files::Get();
  if (!files.ok()) return state.SkipWithError("no data/duckdb/libduckdb.so");
  const auto table = FindTableColumns(kLibrary, files.parquet(), MakeSpec().Columns());
  uint64_t bytes = 0;
  for (auto _ : state) {
    auto reader = TableReader::Open(files.parquet(), {.framing = Framing::kTable, .table = *table});
    Block block;
    size_t rows = 0;
    while (*(*reader)->Next(block)) {
      rows += block.records.size();
      bytes += block.bytes.size();
    }
    if (rows != kRows) state.SkipWithError("rows lost");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_TableRows)->Unit(benchmark::kMillisecond)->UseRealTime();

// DuckDB alone: the chunks of the same columns.
void BM_TableChunks(benchmark::State& state) {
  const Files& files = Files::Get();
  if (!files.ok()) return state.SkipWithError("no data/duckdb/libduckdb.so");
  const auto duckdb = LoadDuckDb(kLibrary);
  for (auto _ : state) {
    auto query = TableQuery::Open(*duckdb, files.parquet(), MakeSpec().Columns());
    size_t rows = 0;
    while (*(*query)->Fetch()) rows += (*query)->rows();
    if (rows != kRows) state.SkipWithError("rows lost");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
}
BENCHMARK(BM_TableChunks)->Unit(benchmark::kMillisecond)->UseRealTime();

void ReadQueue(benchmark::State& state, InputFormat format, const std::string& source) {
  const Files& files = Files::Get();
  if (!files.ok()) return state.SkipWithError("no data/duckdb/libduckdb.so");
  InputOptions options = {.files = {source}, .format = format, .batch_size = 1000};
  options.compact = false;
  options.rows.duckdb = kLibrary;
  const Status used = UseFeatures(*EncoderPlan::Make(MakeSpec()), options);
  if (!used.ok()) return state.SkipWithError(used.message().c_str());
  for (auto _ : state) {
    auto queue = InputQueue::Open(options);
    const CsrBatch* batch = nullptr;
    size_t rows = 0;
    while (*(*queue)->Next(batch)) rows += batch->rows();
    if (rows != kRows) state.SkipWithError("rows lost");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
}

void BM_TableQueue(benchmark::State& state) {
  ReadQueue(state, InputFormat::kTable, Files::Get().parquet());
}
BENCHMARK(BM_TableQueue)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();

void BM_TableQueueSql(benchmark::State& state) {
  ReadQueue(state, InputFormat::kTable,
            "sql:SET threads = " + std::to_string(state.range(0)) + "; FROM '" +
                Files::Get().parquet() + "'");
}
BENCHMARK(BM_TableQueueSql)
    ->ArgName("duckdb_threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

void BM_TableRowsAsCsv(benchmark::State& state) {
  ReadQueue(state, InputFormat::kCsv, Files::Get().csv());
}
BENCHMARK(BM_TableRowsAsCsv)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace millrace::io
