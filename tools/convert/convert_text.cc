// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/convert_text.h"

#include <charconv>
#include <filesystem>
#include <functional>
#include <memory>

#include "io/record/record_reader.h"
#include "io/text/criteo.h"
#include "io/text/file_format.h"
#include "io/text/libffm.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"

namespace millrace::convert {
namespace {

using tools::Interrupted;
using tools::Progress;

constexpr uint64_t kProgressRows = 4096;

// How the lines of files are processed.
struct LineReading {
  std::string work;  // for the progress line
  // False for a line without an example. An error concerns this line and goes to `on_problem`.
  std::function<Result<bool>(std::string_view line)> parse;
  // Called after each parsed line; an error stops the conversion.
  std::function<Status()> use;
  // The message has file and line; an error stops the conversion.
  std::function<Status(const Status& problem)> on_problem;
};

// A file whose first line is bad may have another format.
Status At(const std::string& file, uint64_t line, Format format, const Status& problem) {
  const std::string hint = line == 1 ? io::DescribeFile(file, FormatName(format)) : "";
  return {problem.code(), file + ":" + std::to_string(line) + ": " + problem.message() + hint};
}

Status ReadFile(const std::string& file, const TextOptions& options, const LineReading& reading,
                Progress& progress) {
  const io::BlockOptions blocks = {.framing = io::Framing::kLines,
                                   .on_corrupt = options.on_corrupt,
                                   .max_record_bytes = options.max_record_bytes};
  ASSIGN_OR_RETURN(io::RecordReader lines, io::RecordReader::Open(file, blocks));
  io::RecordView line;
  uint64_t rows = 0;
  for (uint64_t number = 1;; ++number) {
    ASSIGN_OR_RETURN(const bool more, lines.Next(line));
    if (!more) break;
    const Result<bool> parsed = reading.parse(line.bytes);
    if (!parsed.ok()) {
      RETURN_IF_ERROR(reading.on_problem(At(file, number, options.format, parsed.status())));
    } else if (*parsed) {
      RETURN_IF_ERROR(reading.use());
      if (++rows % kProgressRows == 0) progress.Add(kProgressRows);
    }
  }
  if (lines.corruption().events == 0) return {};
  return reading.on_problem(Corrupt(lines.corruption().first));
}

Status ReadFiles(const std::vector<std::string>& files, const TextOptions& options,
                 const LineReading& reading) {
  Progress progress({.work = reading.work, .unit = "rows"});
  for (const std::string& file : files) {
    RETURN_IF_ERROR(ReadFile(file, options, reading, progress));
  }
  return {};
}

std::string NumberText(float number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

Result<int64_t> BinaryLabel(const TextOptions& options, float label) {
  if (options.positive_label) return label == *options.positive_label ? 1 : 0;
  if (label == 1) return 1;
  if (label == 0 || label == -1) return 0;
  return Corrupt("expected the label 0, 1 or -1, found " + NumberText(label) +
                 " (with --positive_label=L, L is positive and all other labels are negative)");
}

using io::CriteoVocabulary;

Result<std::unique_ptr<CriteoVocabulary>> LoadVocabulary(const std::string& path) {
  ASSIGN_OR_RETURN(CriteoVocabulary loaded, CriteoVocabulary::Load(path));
  return std::make_unique<CriteoVocabulary>(std::move(loaded));
}

// Counts the values of all files in a first pass, on top of the old vocabulary if there is one.
Result<std::unique_ptr<CriteoVocabulary>> MakeVocabulary(const TextOptions& options,
                                                         const std::vector<std::string>& files,
                                                         ConvertTally& tally) {
  // Better now than after the first pass.
  const std::filesystem::path folder = std::filesystem::path(options.vocabulary_out).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    return NotFound("--vocabulary_out=" + options.vocabulary_out + ": no such folder");
  }
  auto vocabulary = std::make_unique<CriteoVocabulary>();
  if (!options.vocabulary.empty()) {
    ASSIGN_OR_RETURN(vocabulary, LoadVocabulary(options.vocabulary));
    tally.old_features = vocabulary->num_features();
    vocabulary->Extend();
  }
  io::CriteoLine cells;
  const LineReading reading = {
      .work = "counting",
      .parse = [&](std::string_view line) { return io::SplitCriteoLine(line, cells); },
      .use =
          [&] {
            vocabulary->Count(cells);
            return Interrupted() ? Cancelled("interrupted: nothing was written") : Status();
          },
      // Skipped lines are counted in the second pass.
      .on_problem =
          [&](const Status& problem) {
            return options.on_corrupt == io::OnCorrupt::kFail ? problem : Status();
          }};
  RETURN_IF_ERROR(ReadFiles(files, options, reading));
  vocabulary->Freeze(options.min_count);
  RETURN_IF_ERROR(vocabulary->Save(options.vocabulary_out));
  return vocabulary;
}

Result<std::unique_ptr<io::CriteoKeys>> MakeCriteoKeys(const TextOptions& options,
                                                       const std::vector<std::string>& files,
                                                       ConvertTally& tally) {
  std::unique_ptr<io::CriteoKeys> keys;
  if (!options.vocabulary_out.empty()) {
    ASSIGN_OR_RETURN(keys, MakeVocabulary(options, files, tally));
  } else if (!options.vocabulary.empty()) {
    ASSIGN_OR_RETURN(keys, LoadVocabulary(options.vocabulary));
  } else {
    keys = std::make_unique<io::CriteoHasher>(options.criteo_hash_bits);
  }
  return keys;
}

using ParseRow = std::function<Result<bool>(std::string_view line, io::SparseRow& row)>;

Result<ParseRow> MakeParser(const TextOptions& options, const std::vector<std::string>& files,
                            ConvertTally& tally) {
  if (options.format == Format::kLibsvm) {
    return ParseRow([&](std::string_view line, io::SparseRow& row) {
      return io::ParseLibsvmLine(line, options.libsvm, row);
    });
  }
  if (options.format == Format::kLibffm) {
    return ParseRow([&](std::string_view line, io::SparseRow& row) {
      return io::ParseLibffmLine(line, options.libsvm, row);
    });
  }
  if (options.format == Format::kVw) {
    const int bits = options.vw.hash_bits;
    if (bits > 0 && bits < 64) tally.num_features = uint64_t{1} << bits;
    return ParseRow([&](std::string_view line, io::SparseRow& row) {
      return io::ParseVwLine(line, options.vw, row);
    });
  }
  CHECK(options.format == Format::kCriteo);
  ASSIGN_OR_RETURN(auto made, MakeCriteoKeys(options, files, tally));
  tally.num_features = made->num_features();
  // A std::function is copied, so its state must be shareable.
  const std::shared_ptr<const io::CriteoKeys> keys = std::move(made);
  return ParseRow([keys](std::string_view line, io::SparseRow& row) -> Result<bool> {
    io::CriteoLine cells;
    ASSIGN_OR_RETURN(const bool found, io::SplitCriteoLine(line, cells));
    if (found) keys->Encode(cells, row);
    return found;
  });
}

}  // namespace

void EncodeRow(const io::FeatureNames& names, int64_t label, const io::SparseRow& row,
               std::string& record) {
  if (row.weight == 1 && row.fields.empty()) {
    return io::EncodeSparseExample(names, label, row.keys, row.values, record);
  }
  const std::vector<int64_t> keys(row.keys.begin(), row.keys.end());
  io::ExampleBuilder builder;
  builder.AddInt64(names.index, keys);
  builder.AddInt64(names.label, {&label, 1});
  if (!row.values.empty()) builder.AddFloat(names.value, row.values);
  if (row.weight != 1) builder.AddFloat(names.weight, {&row.weight, 1});
  if (!row.fields.empty()) {
    builder.AddInt64(names.field, std::vector<int64_t>(row.fields.begin(), row.fields.end()));
  }
  builder.Finish(record);
}

Status ConvertText(const TextOptions& options, const std::vector<std::string>& files,
                   ShardWriter& out, ConvertTally& tally) {
  ASSIGN_OR_RETURN(const ParseRow parse_row, MakeParser(options, files, tally));
  io::SparseRow row;
  int64_t label = 0;
  std::string record;
  const LineReading reading = {
      .work = "converting",
      .parse = [&](std::string_view line) -> Result<bool> {
        ASSIGN_OR_RETURN(const bool found, parse_row(line, row));
        if (!found) return false;
        ASSIGN_OR_RETURN(label, BinaryLabel(options, row.label));
        return true;
      },
      .use =
          [&] {
            tally.AddKeys(row.keys);
            tally.AddFields(row.fields);
            tally.positives += label == 1;
            tally.weighted += row.weight != 1;
            EncodeRow(options.names, label, row, record);
            return out.Append(record);
          },
      .on_problem = [&](const Status& problem) { return tally.Skip(options.on_corrupt, problem); }};
  RETURN_IF_ERROR(ReadFiles(files, options, reading));
  tally.records_in = out.records() + tally.skipped;
  return {};
}

}  // namespace millrace::convert
