// SPDX-License-Identifier: Apache-2.0
#include "tools/records/commands.h"

#include <algorithm>
#include <thread>

#include "io/stream/file_list.h"
#include "tools/common/remote_flags.h"

DEFINE_string(out, "", "output folder; infer and fit: output file, or standard output");
DEFINE_uint64(seed, 1, "seed of all random numbers; the same seed gives the same bytes");
DEFINE_uint64(shards, 8, "number of files to write");
DEFINE_bool(overwrite, false, "replace files of the same names");
DEFINE_string(compression, "none", "of the written files: none, gzip, zlib or zstd");
DEFINE_int32(level, 0, "compression level; 0: 6 for gzip and zlib, 1 for zstd");
DEFINE_uint64(threads, 0, "number of threads; 0: one per core");
DEFINE_string(on_corrupt, "fail",
              "what to do with a corrupt record: fail, or skip (counted and reported)");
DEFINE_uint64(max_record_mb, millrace::io::BlockOptions{}.max_record_bytes >> 20,
              "longest record or line in megabytes, at most 2048; bounds the memory");
DEFINE_string(label_feature, millrace::io::FeatureNames{}.label, "name of the label feature");
DEFINE_string(index_feature, millrace::io::FeatureNames{}.index,
              "name of the feature with the keys");
DEFINE_string(value_feature, millrace::io::FeatureNames{}.value,
              "name of the feature with the values");

namespace millrace::records {
namespace {

using tools::Args;

constexpr size_t kMaxThreads = 1024;

int MaxLevel(io::Compression compression) {
  switch (compression) {
    case io::Compression::kNone:  // CheckEffects rejects a level
    case io::Compression::kGzip:
    case io::Compression::kZlib:
      return 9;
    case io::Compression::kZstd:
      return 19;
  }
  return 0;
}

}  // namespace

Result<io::WriterOptions> WriterOptionsFromFlags() {
  ASSIGN_OR_RETURN(const io::Compression compression, io::CompressionFromName(FLAGS_compression));
  const int max_level = MaxLevel(compression);
  if (FLAGS_level < 0 || FLAGS_level > max_level) {
    return Invalid("--level=" + std::to_string(FLAGS_level) + " with --compression=" +
                   FLAGS_compression + ": expected 0 to " + std::to_string(max_level));
  }
  return io::WriterOptions{
      .compression = compression, .level = FLAGS_level, .at_path = io::AtPath::kReplace};
}

io::FeatureNames FeatureNamesFromFlags() {
  return {.label = FLAGS_label_feature,
          .index = FLAGS_index_feature,
          .value = FLAGS_value_feature,
          .weight = ""};
}

Result<size_t> ThreadsFromFlags() {
  if (FLAGS_threads > kMaxThreads) {
    return Invalid("--threads=" + std::to_string(FLAGS_threads) + ": expected at most " +
                   std::to_string(kMaxThreads));
  }
  if (FLAGS_threads > 0) return FLAGS_threads;
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

Result<std::vector<std::string>> InputFiles(const Args& args) {
  if (args.empty()) {
    return Invalid("no input: name files, globs in quotes, @list, or - for standard input");
  }
  std::vector<std::string> files;
  for (const std::string& arg : args) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, io::ExpandFiles(arg));
    files.insert(files.end(), expanded.begin(), expanded.end());
  }
  if (std::count(files.begin(), files.end(), "-") > 1) {
    return Invalid("standard input (-) can be read only once");
  }
  RETURN_IF_ERROR(tools::CheckRemoteFlags(files));
  return files;
}

}  // namespace millrace::records
