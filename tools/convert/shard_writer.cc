// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/shard_writer.h"

#include <algorithm>
#include <filesystem>

#include "tools/common/program.h"

namespace millrace::convert {
namespace {

using tools::Interrupted;

namespace fs = std::filesystem;

// Whether `file` is NAME-12345-of-12345.tfrecord with any suffix.
bool IsShardOf(const std::string& name, const std::string& file) {
  const std::string pattern = name + "-#####-of-#####.tfrecord";
  if (file.size() < pattern.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool digit = file[i] >= '0' && file[i] <= '9';
    if (i >= name.size() && pattern[i] == '#' ? !digit : file[i] != pattern[i]) return false;
  }
  // A temporary file of a killed run (.tmp-...) is not a shard.
  return file.find(".tmp-", pattern.size()) == file.npos;
}

Status CheckNoOtherShards(const ShardOptions& options, const std::vector<std::string>& files) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options.folder, error)) {
    const std::string file = entry.path().filename().string();
    const std::string path = (fs::path(options.folder) / file).string();
    if (!IsShardOf(options.name, file) ||
        std::find(files.begin(), files.end(), path) != files.end())
      continue;
    return Invalid(path + " is a shard of another \"" + options.name +
                   "\" in the same folder: remove it, or choose another --out or --name");
  }
  return {};
}

}  // namespace

Status CheckNoneExist(const std::vector<std::string>& files) {
  std::error_code ignored;
  for (const std::string& file : files) {
    if (!fs::exists(fs::symlink_status(file, ignored))) continue;  // a dangling link exists
    return Invalid(file + " already exists: set --overwrite to replace it, or choose another name");
  }
  return {};
}

Result<ShardWriter> ShardWriter::Create(const ShardOptions& options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) return IoError("cannot create the folder " + options.folder, error.value());
  ShardWriter writer;
  writer.folder_ = options.folder;
  for (size_t i = 0; i < options.shards; ++i) {
    const std::string file =
        io::ShardName(options.name, i, options.shards, options.writer.compression);
    writer.files_.push_back((fs::path(options.folder) / file).string());
  }
  RETURN_IF_ERROR(CheckNoOtherShards(options, writer.files_));
  if (!options.overwrite) RETURN_IF_ERROR(CheckNoneExist(writer.files_));
  for (const std::string& file : writer.files_) {
    ASSIGN_OR_RETURN(io::RecordWriter shard, io::RecordWriter::Create(file, options.writer));
    writer.writers_.push_back(std::move(shard));
  }
  return writer;
}

Status ShardWriter::Append(std::string_view record) {
  if (Interrupted()) return Cancelled("interrupted: no shard was written");
  RETURN_IF_ERROR(writers_[next_].Append(record));
  next_ = next_ + 1 == writers_.size() ? 0 : next_ + 1;
  ++records_;
  return {};
}

Status ShardWriter::Close() {
  for (io::RecordWriter& writer : writers_) RETURN_IF_ERROR(writer.Close());
  return {};
}

}  // namespace millrace::convert
