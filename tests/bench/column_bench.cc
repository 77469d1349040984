// SPDX-License-Identifier: Apache-2.0
// Rows like Criteo's (a label, 13 integers, 26 categories) as CSV and as JSON lines: reading all 40
// columns, and finding the records.
#include <benchmark/benchmark.h>

#include <cstring>

#include "io/base/random.h"
#include "io/record/block_reader.h"
#include "io/text/csv_columns.h"
#include "io/text/json_columns.h"

namespace millrace::io {
namespace {

constexpr size_t kRows = 2000;
constexpr size_t kColumns = 40;

std::vector<std::string> ColumnNames() {
  std::vector<std::string> names = {"label"};
  for (int i = 1; i <= 13; ++i) names.push_back("I" + std::to_string(i));
  for (int i = 1; i <= 26; ++i) names.push_back("C" + std::to_string(i));
  return names;
}

std::vector<std::vector<std::string>> MakeRows() {
  std::vector<std::vector<std::string>> rows(kRows);
  Random random(1);
  for (auto& row : rows) {
    row.push_back(std::to_string(random.Below(2)));
    for (size_t i = 1; i < kColumns; ++i) {
      char text[16] = "";
      if (i <= 13 && random.Below(5) > 0) {
        std::snprintf(text, sizeof text, "%u",
                      static_cast<unsigned>(random.Below(1 << random.Below(14))));
      } else if (i > 13 && random.Below(10) > 0) {
        std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random.Below(1ull << 32)));
      }
      row.emplace_back(text);
    }
  }
  return rows;
}

struct Records {
  std::vector<std::string> records;
  size_t bytes = 0;
  void Add(std::string record) {
    bytes += record.size() + 1;
    records.push_back(std::move(record));
  }
};

Records CsvRecords(bool quoted) {
  Records records;
  const std::string quote = quoted ? "\"" : "";
  for (const auto& row : MakeRows()) {
    std::string record;
    for (const std::string& cell : row) {
      record += (record.empty() ? "" : ",") + quote + cell + quote;
    }
    records.Add(record);
  }
  return records;
}

Records JsonRecords() {
  Records records;
  const std::vector<std::string> names = ColumnNames();
  for (const auto& row : MakeRows()) {
    std::string record;
    for (size_t i = 0; i < kColumns; ++i) {
      if (row[i].empty()) continue;
      const std::string quote = i <= 13 ? "" : "\"";
      record += (record.empty() ? "{\"" : ",\"") + names[i] + "\":" + quote + row[i] + quote;
    }
    records.Add(record + "}");
  }
  return records;
}

void ReadAll(benchmark::State& state, ColumnReader& reader, const Records& records) {
  FieldRow row;
  for (auto _ : state) {
    for (const std::string& record : records.records) {
      const Result<bool> is_row = reader.Read(record, row);
      if (!is_row.ok() || !*is_row) state.SkipWithError("not a row");
      benchmark::DoNotOptimize(row.column(kColumns - 1).data());
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * records.bytes));
}

// Arguments: the CPU level, and whether all cells have quotes.
void BM_CsvColumns(benchmark::State& state) {
  const auto level = static_cast<CpuLevel>(state.range(0));
  if (level > DetectCpuLevel()) return state.SkipWithError("the processor lacks the instructions");
  CsvColumns reader(ColumnNames(), ',', ColumnNames(), level);
  ReadAll(state, reader, CsvRecords(state.range(1) != 0));
  state.SetLabel(CpuLevelName(level));
}
BENCHMARK(BM_CsvColumns)->ArgsProduct({{0, 1, 2}, {0, 1}});

// The plain design: a search per cell.
class CellByCell final : public ColumnReader {
 public:
  Result<bool> Read(std::string_view record, FieldRow& row) override {
    row.Clear(kColumns);
    const char *p = record.data(), *const end = p + record.size();
    for (size_t column = 0; column < kColumns; ++column) {
      const auto* stop =
          static_cast<const char*>(std::memchr(p, ',', static_cast<size_t>(end - p)));
      if (!stop) stop = end;
      row.Begin(column);
      row.AddText({p, static_cast<size_t>(stop - p)});
      p = stop == end ? end : stop + 1;
    }
    return true;
  }
};

void BM_CsvCellByCell(benchmark::State& state) {
  CellByCell reader;
  ReadAll(state, reader, CsvRecords(false));
}
BENCHMARK(BM_CsvCellByCell);

void BM_JsonColumns(benchmark::State& state) {
  JsonColumns reader(ColumnNames());
  ReadAll(state, reader, JsonRecords());
}
BENCHMARK(BM_JsonColumns);

// Bytes from memory.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(const std::string& bytes) : bytes_(bytes) {}
  Status Read(std::span<char> out, size_t* delivered) override {
    *delivered = std::min(out.size(), bytes_.size() - at_);
    std::memcpy(out.data(), bytes_.data() + at_, *delivered);
    at_ += *delivered;
    return {};
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

void ReadBlocks(benchmark::State& state, Framing framing, bool quoted) {
  std::string text;
  for (const std::string& record : CsvRecords(quoted).records) text += record + "\n";
  Block block;
  for (auto _ : state) {
    OpenedSource source;
    source.bytes = std::make_unique<MemorySource>(text);
    BlockReader reader("memory", std::move(source), {.framing = framing});
    size_t rows = 0;
    while (*reader.Next(block)) rows += block.records.size();
    if (rows != kRows) state.SkipWithError("rows are missing");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

void BM_LineFraming(benchmark::State& state) { ReadBlocks(state, Framing::kLines, false); }
BENCHMARK(BM_LineFraming);
void BM_CsvFraming(benchmark::State& state) {
  ReadBlocks(state, Framing::kCsv, state.range(0) != 0);
}
BENCHMARK(BM_CsvFraming)->Arg(0)->Arg(1);

}  // namespace
}  // namespace millrace::io
