// SPDX-License-Identifier: Apache-2.0
// Distributes records over the shards of one data set: record i goes to shard i mod N.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/record_writer.h"

namespace millrace::convert {

struct ShardOptions {
  std::string folder;  // created if missing
  std::string name;    // "train": train-00000-of-00008.tfrecord
  size_t shards = 1;
  bool overwrite = false;  // replace existing shards of the same names
  io::WriterOptions writer = {};
};

// An error if one of the files exists; it names the first.
Status CheckNoneExist(const std::vector<std::string>& files);

// Shards get their names on Close. Not thread-safe.
class ShardWriter {
 public:
  // Existing shards of `name` with another count or compression are an error, because a pattern
  // would read them as part of the data set. Existing shards of the same names are an error unless
  // `overwrite`.
  static Result<ShardWriter> Create(const ShardOptions& options);

  // Also fails after SIGINT or SIGTERM, so that a conversion leaves no partial files.
  Status Append(std::string_view record);
  Status Close();

  const std::string& folder() const { return folder_; }
  const std::vector<std::string>& files() const { return files_; }
  uint64_t records() const { return records_; }

 private:
  ShardWriter() = default;

  std::string folder_;
  std::vector<std::string> files_;
  std::vector<io::RecordWriter> writers_;
  uint64_t records_ = 0;
  size_t next_ = 0;
};

}  // namespace millrace::convert
