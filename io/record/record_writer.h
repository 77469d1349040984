// SPDX-License-Identifier: Apache-2.0
// Writes a TFRecord file, plain or compressed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/record/output_file.h"

namespace millrace::io {

struct WriterOptions {
  Compression compression = Compression::kNone;
  int level = 0;  // 0: gzip and zlib 6, zstd 1
  AtPath at_path = AtPath::kFollow;
};

// The file appears under `path`, or replaces the existing file, when Close succeeds: see
// OutputFile, which also describes FIFOs and standard output. Not thread-safe.
class RecordWriter {
 public:
  static Result<RecordWriter> Create(const std::string& path, WriterOptions options = {});
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  ~RecordWriter();

  Status Append(std::string_view record);
  // Appends records that AppendFrame has framed.
  Status AppendFramed(std::string_view frames);
  Status Close();

  uint64_t records() const;
  uint64_t bytes() const;  // framed, before compression

 private:
  struct Impl;
  explicit RecordWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Appends header, data and footer of one record to `out`.
void AppendFrame(std::string_view record, std::string& out);

// The name of shard `index` of `count`: "train-00003-of-00010.tfrecord.zst" for base "train" and
// zstd.
std::string ShardName(std::string_view base, size_t index, size_t count, Compression compression);

}  // namespace millrace::io
