// SPDX-License-Identifier: Apache-2.0
// millrace-records convert, run as a program; its files are read with the record reader and the
// general decoder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/example/feature_view.h"
#include "io/record/record_reader.h"
#include "io/record/record_writer.h"
#include "tests/support/program.h"

namespace millrace::convert {

using test::ProgramRun;
using test::RunProgram;

using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

inline ProgramRun Convert(const std::string& arguments) {
  return RunProgram("millrace-records", "convert " + arguments);
}

// Features as text, so that whole records compare at once.
using Record = std::map<std::string, std::string>;

inline Record Decode(std::string_view bytes) {
  io::ExampleView view;
  const Status parsed = io::ParseExample(bytes, view);
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  Record record;
  for (const io::FeatureView& feature : view.features()) {
    std::string text;
    for (const std::string_view value : feature.bytes) text += std::string(value);
    for (const float value : feature.floats) text += std::to_string(value) + " ";
    for (const int64_t value : feature.ints) text += std::to_string(value) + " ";
    record[std::string(feature.name)] = text;
  }
  return record;
}

inline std::vector<Record> ReadShard(const std::string& path) {
  std::vector<Record> records;
  Result<io::RecordReader> reader = io::RecordReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  if (!reader.ok()) return records;
  for (io::RecordView record;;) {
    const Result<bool> more = reader->Next(record);
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more.ok() || !*more) return records;
    records.push_back(Decode(record.bytes));
  }
}

// All records in the order of the input: shards were dealt in turn.
inline std::vector<Record> ReadShards(const std::string& base, size_t shards,
                                      io::Compression compression = io::Compression::kNone) {
  std::vector<std::vector<Record>> parts;
  size_t total = 0;
  for (size_t i = 0; i < shards; ++i) {
    parts.push_back(ReadShard(io::ShardName(base, i, shards, compression)));
    total += parts.back().size();
  }
  std::vector<Record> records;
  for (size_t i = 0; i < total; ++i) records.push_back(parts[i % shards].at(i / shards));
  return records;
}

inline std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace millrace::convert
