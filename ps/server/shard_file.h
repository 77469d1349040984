// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a shard: its part of the job's checkpoint (sparse/checkpoint.h), or a part of a
// net's parameters. docs/formats.md has the fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

class Shard;

class ShardFile {
 public:
  // The file appears whole or not at all. It and the committed one are kept, others go. Nothing
  // changes if the folder was claimed by a later start of the run.
  static Status Save(Shard& shard, const CheckpointRequest& request);
  // A checkpoint of the same number of shards is read from this shard's folder alone; of any other
  // all parts are read, from the folders beside it. Everything is read and checked before anything
  // is changed. No file is removed.
  static Status Restore(Shard& shard, const RestoreRequest& request);
  // The numbers of the files there are, newest first.
  static std::vector<uint64_t> List(const std::string& folder);

 private:
  static sparse::CheckpointInfo InfoOf(const Shard& shard);
  static Status RestoreDense(Shard& shard, const RestoreRequest& request);
  static void TakeProgress(Shard& shard, sparse::CheckpointInfo info, bool resumes);
};

}  // namespace millrace::ps
