// SPDX-License-Identifier: Apache-2.0
// millrace-records convert: text and image data sets to TFRecord shards.

#include <gflags/gflags.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "profiler/clock.h"
#include "tools/common/program.h"
#include "tools/common/remote_flags.h"
#include "tools/convert/convert_images.h"
#include "tools/convert/convert_text.h"
#include "tools/convert/format.h"
#include "tools/convert/summary.h"
#include "tools/records/commands.h"
#include "tools/records/rows.h"

DEFINE_string(
    format, "auto",
    "input format: libsvm, libffm, vw, criteo, mnist, images, or auto (detected); with --features: "
    "tfrecord, csv, json, table (Parquet, SQL) or vw");
DEFINE_string(name, "train", "files are called NAME-00000-of-00008.tfrecord and so on");
DEFINE_int32(index_base, millrace::io::LibsvmOptions{}.index_base,
             "libsvm, libffm: subtracted from every index, 0 or 1");
DEFINE_string(positive_label, "",
              "text: the label that becomes 1, every other becomes 0; "
              "if empty, labels must be 0, 1 or -1 (which becomes 0)");
DEFINE_string(
    weight_feature, "weight",
    "vw, and --features: name of the feature with the row's weight, written if it is not 1");
DEFINE_string(field_feature, millrace::io::FeatureNames{}.field,
              "libffm, and --write_fields: name of the feature with the fields of the keys");
DEFINE_bool(write_fields, false,
            "with --features: write the number of each key's field, its position in the spec");
DEFINE_int32(hash_bits, 0,
             "vw, criteo: keys are hashes of this many bits, 1 to 64; 0: vw has 64 bits");
DEFINE_bool(vw_hash_all, millrace::io::VwOptions{}.hash_all,
            "vw: hash all names with their namespace, as vw --hash all; --novw_hash_all: a name of "
            "digits is its key, in any namespace");
DEFINE_string(
    vocabulary, "",
    "criteo: take the keys from this file, which --vocabulary_out wrote; with --vocabulary_out "
    "new values get new keys, and old keys stay");
DEFINE_string(
    vocabulary_out, "",
    "criteo: count all values in a first pass, assign a key to each, write the keys to this file");
DEFINE_uint64(min_count, 1,
              "criteo, with --vocabulary_out: rarer new values share one key of their field");

namespace millrace::records {
namespace {

using convert::CheckNoneExist;
using convert::ConvertImages;
using convert::ConvertMnist;
using convert::ConvertTally;
using convert::ConvertText;
using convert::DetectFormat;
using convert::Format;
using convert::FormatFromName;
using convert::FormatName;
using convert::PrintSummary;
using convert::ShardOptions;
using convert::ShardWriter;
using convert::TextOptions;
using tools::Args;
using tools::CatchInterrupts;
using tools::CommandSpec;
using tools::File;
using tools::Folder;
using tools::OneOf;

struct ConvertOptions {
  Format format = Format::kLibsvm;
  std::vector<std::string> inputs;
  TextOptions text;
  ShardOptions shards;
};

Status CheckCriteoKeys(const std::vector<std::string>& inputs) {
  const bool has_vocabulary = !FLAGS_vocabulary.empty() || !FLAGS_vocabulary_out.empty();
  if (has_vocabulary == (FLAGS_hash_bits > 0)) {
    return Invalid(
        std::string("criteo: expected --vocabulary_out=FILE (written in a first pass), "
                    "--vocabulary=FILE (written before; with --vocabulary_out it is extended) or "
                    "--hash_bits=N, found ") +
        (has_vocabulary ? "a vocabulary and --hash_bits" : "none"));
  }
  if (FLAGS_vocabulary_out.empty()) return {};
  if (!FLAGS_overwrite) RETURN_IF_ERROR(CheckNoneExist({FLAGS_vocabulary_out}));
  for (const std::string& input : inputs) {
    if (input == "-" ||
        (std::filesystem::exists(input) && !std::filesystem::is_regular_file(input))) {
      return Invalid("--vocabulary_out reads the input twice, which " +
                     (input == "-" ? "standard input" : input) + " does not allow");
    }
  }
  return {};
}

Result<TextOptions> TextOptionsFromFlags(Format format) {
  TextOptions options;
  options.format = format;
  ASSIGN_OR_RETURN(options.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(options.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  options.names = FeatureNamesFromFlags();
  options.names.weight = FLAGS_weight_feature;
  options.names.field = FLAGS_field_feature;
  if (FLAGS_field_feature.empty()) return Invalid("--field_feature is empty: expected a name");
  if (FLAGS_weight_feature.empty()) return Invalid("--weight_feature is empty: expected a name");
  ASSIGN_OR_RETURN(options.positive_label, tools::PositiveLabel(FLAGS_positive_label));
  if (FLAGS_index_base != 0 && FLAGS_index_base != 1) {
    return Invalid("--index_base=" + std::to_string(FLAGS_index_base) + ": expected 0 or 1");
  }
  options.libsvm.index_base = FLAGS_index_base;
  if (FLAGS_hash_bits < 0 || FLAGS_hash_bits > 64) {
    return Invalid("--hash_bits=" + std::to_string(FLAGS_hash_bits) + ": expected 0 to 64");
  }
  options.vw = {.hash_bits = FLAGS_hash_bits, .hash_all = FLAGS_vw_hash_all};
  options.criteo_hash_bits = FLAGS_hash_bits;
  options.vocabulary = FLAGS_vocabulary;
  options.vocabulary_out = FLAGS_vocabulary_out;
  options.min_count = FLAGS_min_count;
  return options;
}

Result<ShardOptions> ShardOptionsFromFlags() {
  constexpr uint64_t kMaxShards = 1000;  // all are open at the same time
  if (FLAGS_out.empty()) return Invalid("--out is missing: expected the folder to write to");
  if (FLAGS_name.empty() || FLAGS_name.find('/') != FLAGS_name.npos) {
    return Invalid("--name=" + FLAGS_name + ": expected the beginning of file names, without /");
  }
  if (FLAGS_shards < 1 || FLAGS_shards > kMaxShards) {
    return Invalid("--shards=" + std::to_string(FLAGS_shards) + ": expected 1 to " +
                   std::to_string(kMaxShards));
  }
  ASSIGN_OR_RETURN(const io::WriterOptions writer, WriterOptionsFromFlags());
  return ShardOptions{.folder = FLAGS_out,
                      .name = FLAGS_name,
                      .shards = FLAGS_shards,
                      .overwrite = FLAGS_overwrite,
                      .writer = writer};
}

Result<Format> FormatOf(const std::vector<std::string>& inputs) {
  if (FLAGS_format != "auto") return FormatFromName(FLAGS_format);
  if (FLAGS_features.empty()) return DetectFormat(inputs[0]);
  ASSIGN_OR_RETURN(const io::InputFormat format, io::DetectInputFormat(inputs));
  // The columns of Criteo text are those of the spec.
  if (format == io::InputFormat::kCriteo) return Format::kCsv;
  return FormatFromName(io::InputFormatName(format));
}

bool NeedsFeatures(Format format) {
  return format == Format::kTfRecord || format == Format::kCsv || format == Format::kJson ||
         format == Format::kTable;
}

Status MissingFeatures(Format format) {
  return Invalid(std::string("--format=") + FormatName(format) + ": expected --features");
}

Result<ConvertOptions> OptionsFromFlags(const Args& args) {
  ConvertOptions options;
  if (FLAGS_format != "auto") RETURN_IF_ERROR(FormatFromName(FLAGS_format).status());
  ASSIGN_OR_RETURN(options.shards, ShardOptionsFromFlags());
  ASSIGN_OR_RETURN(options.inputs, InputFiles(args));
  ASSIGN_OR_RETURN(options.format, FormatOf(options.inputs));
  if (NeedsFeatures(options.format) && FLAGS_features.empty()) {
    return MissingFeatures(options.format);
  }
  ASSIGN_OR_RETURN(options.text, TextOptionsFromFlags(options.format));
  RETURN_IF_ERROR(tools::CheckEffects(ConvertSpec(), {{"format", {FormatName(options.format)}}}));
  if (tools::IsGiven("field_feature") && options.format != Format::kLibffm && !FLAGS_write_fields) {
    return Invalid("--field_feature has no effect without --write_fields");
  }
  if (options.format == Format::kCriteo) RETURN_IF_ERROR(CheckCriteoKeys(options.inputs));
  if (options.format == Format::kImages && options.inputs.size() != 1) {
    return Invalid("images: expected one folder of class folders, found " +
                   std::to_string(options.inputs.size()) + " arguments");
  }
  return options;
}

// Keys of named columns by a feature spec.
Status ConvertRows(const ConvertOptions& options, ShardWriter& out, ConvertTally& tally) {
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, SpecFromFlags());
  ASSIGN_OR_RETURN(const auto plan, io::EncoderPlan::Make(spec));
  RowReading reading = {.work = "converting"};
  io::InputOptions& input = reading.input;
  input.files = options.inputs;
  input.on_corrupt = options.text.on_corrupt;
  input.max_record_bytes = options.text.max_record_bytes;
  ASSIGN_OR_RETURN(input.format, io::InputFormatFromName(FormatName(options.format)));
  input.rows.duckdb = FLAGS_duckdb;
  RETURN_IF_ERROR(io::UseFeatures(plan, input));
  RETURN_IF_ERROR(io::CheckNames(input));
  if (FLAGS_write_fields) RETURN_IF_ERROR(io::UseFields(0, input));
  tally.num_features = spec.num_features();
  const auto decoder = io::MakeRowDecoder(input.format, input.rows);
  io::BatchBuilder rows;
  io::SparseRow row;
  std::string record;
  Status written;
  SkippedRows skipped;
  const auto add = [&](std::string_view bytes) -> Status {
    rows.Clear(/*wide_rows=*/true);
    RETURN_IF_ERROR(decoder->Append(bytes, rows));
    if (rows.batch.rows() == 0) return {};
    row.keys.assign(rows.wide_keys.begin(), rows.wide_keys.begin() + rows.nnz());
    row.values.assign(rows.batch.values.begin(), rows.batch.values.end());
    row.fields.assign(rows.batch.fields.begin(), rows.batch.fields.end());
    row.weight = rows.batch.weights.empty() ? 1 : rows.batch.weights[0];
    tally.AddKeys(row.keys);
    tally.AddFields(row.fields);
    tally.positives += rows.batch.labels[0] == 1;
    tally.weighted += row.weight != 1;
    convert::EncodeRow(options.text.names, static_cast<int64_t>(rows.batch.labels[0]), row, record);
    return out.Append(record);
  };
  RETURN_IF_ERROR(ReadRows(reading, add, skipped));
  tally.skipped = skipped.rows;
  tally.first_skipped = skipped.first;
  tally.records_in = out.records() + skipped.rows;
  return {};
}

Status Convert(const ConvertOptions& options, ShardWriter& out, ConvertTally& tally) {
  if (!FLAGS_features.empty()) {
    RETURN_IF_ERROR(ConvertRows(options, out, tally));
    return out.Close();
  }
  switch (options.format) {
    case Format::kLibsvm:
    case Format::kLibffm:
    case Format::kVw:
    case Format::kCriteo:
      RETURN_IF_ERROR(ConvertText(options.text, options.inputs, out, tally));
      break;
    case Format::kMnist:
      RETURN_IF_ERROR(ConvertMnist(options.inputs, options.text.on_corrupt, out, tally));
      break;
    case Format::kImages:
      RETURN_IF_ERROR(ConvertImages(options.inputs[0], options.text.on_corrupt, out, tally));
      break;
    case Format::kTfRecord:
    case Format::kCsv:
    case Format::kJson:
    case Format::kTable:
      return MissingFeatures(options.format);
  }
  return out.Close();
}

}  // namespace

const CommandSpec& ConvertSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records convert",
       .job = "turns text, rows of named columns, MNIST and image data into TFRecord shards",
       .arguments = "FILE...",
       .groups =
           {{"Input",
             {"format", "on_corrupt", "max_record_mb", "positive_label", "index_base", "duckdb"},
             {{"format", OneOf({"auto", "libsvm", "libffm", "vw", "criteo", "mnist", "images",
                                "tfrecord", "csv", "json", "table"})},
              {"duckdb", File()},
              {"on_corrupt", OneOf({"fail", "skip"})}}},
            {"Keys",
             {"features", "hash_bits", "vw_hash_all", "vocabulary_out", "vocabulary", "min_count"},
             {{"features", File()}, {"vocabulary_out", File()}, {"vocabulary", File()}}},
            {"Output",
             {"out", "name", "shards", "overwrite", "compression", "level", "label_feature",
              "index_feature", "value_feature", "weight_feature", "field_feature", "write_fields"},
             {{"out", Folder()}, {"compression", OneOf({"none", "gzip", "zlib", "zstd"})}}}},
       .always = {"format", "on_corrupt", "out", "name", "shards", "overwrite", "compression"},
       .needs =
           {{{"max_record_mb", "label_feature", "index_feature", "value_feature"},
             {"format"},
             {"libsvm", "libffm", "vw", "criteo", "tfrecord", "csv", "json", "table"}},
            {{"features", "write_fields"}, {"format"}, {"tfrecord", "csv", "json", "table", "vw"}},
            {{"write_fields"}, {"features"}},
            {{"duckdb"}, {"format"}, {"table"}},
            {{"positive_label"}, {"format"}, {"libsvm", "libffm", "vw", "criteo"}},
            {{"index_base"}, {"format"}, {"libsvm", "libffm"}},
            {{"field_feature"}, {"format"}, {"libffm", "tfrecord", "csv", "json", "table", "vw"}},
            {{"hash_bits"}, {"format"}, {"vw", "criteo"}},
            {{"vw_hash_all"}, {"format"}, {"vw"}},
            {{"weight_feature"}, {"format"}, {"vw", "tfrecord", "csv", "json", "table"}},
            {{"vocabulary", "vocabulary_out", "min_count"}, {"format"}, {"criteo"}},
            {{"positive_label", "hash_bits", "vw_hash_all"}, {"features"}, {""}},
            {{"min_count"}, {"vocabulary_out"}},
            {.flags = {"level"},
             .with = {"compression"},
             .except = {"none"},
             .text = "--compression=gzip, zlib or zstd"}},
       .examples = {
           "millrace-records convert --out=data/a9a a9a",
           "millrace-records convert --out=data/criteo --vocabulary_out=data/criteo/vocabulary.tsv "
           "--min_count=10 day_0.tsv.gz",
           "millrace-records convert --out=data/criteo --name=test "
           "--vocabulary=data/criteo/vocabulary.tsv day_1.tsv.gz",
           "millrace-records convert --out=data/day_1 --vocabulary=data/criteo/vocabulary.tsv "
           "--vocabulary_out=data/day_1/vocabulary.tsv day_1.tsv.gz",
           "millrace-records convert --out=data/rows --features=spec.json 'rows-*.csv.gz'",
           "millrace-records convert --out=data/mnist train-images-idx3-ubyte "
           "train-labels-idx1-ubyte",
           "millrace-records convert --out=data/flowers flower_photos/"}});
  return spec;
}

int RunConvert(const Args& args) {
  const double start_s = NowSeconds();
  const Result<ConvertOptions> options = OptionsFromFlags(args);
  if (!options.ok()) return Fail(options.status());
  CatchInterrupts();
  Result<ShardWriter> out = ShardWriter::Create(options->shards);
  if (!out.ok()) return Fail(out.status());
  ConvertTally tally;
  if (const Status done = Convert(*options, *out, tally); !done.ok()) return Fail(done);
  const double seconds = NowSeconds() - start_s;
  PrintSummary({.format = options->format,
                .weight_feature = options->text.names.weight,
                .field_feature = options->text.names.field,
                .vocabulary_out = options->text.vocabulary_out,
                .seconds = seconds},
               *out, tally);
  return 0;
}

}  // namespace millrace::records
