// Deals records out to the shards of one data set in turn: record i goes to shard i mod N.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/record_writer.h"

namespace millrace::convert {

struct ShardOptions {
  std::string folder;  // made when it is not there
  std::string name;    // "train": train-00000-of-00008.tfrecord
  size_t shards = 1;
  bool overwrite = false;  // shards of the same names may be there
  io::WriterOptions writer = {};
};

// An error that names the first of the files that exists, if one does.
Status CheckNoneExist(const std::vector<std::string>& files);

// No shard appears under its name before Close. Not thread-safe.
class ShardWriter {
 public:
  // Shards of the same name in other numbers or with another compression, which a pattern would
  // take for the same data set, are an error; so are those of the same names unless `overwrite`.
  static Result<ShardWriter> Create(const ShardOptions& options);

  // An error also after SIGINT or SIGTERM, so that a conversion ends without leaving parts.
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
