// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a shard: a state file (io/state) with the job's configuration, its progress, where
// each worker was, and the shard's slots under their local keys. docs/formats.md has the fields.
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
  // Everything is read and checked before anything is changed. No file is removed.
  static Status Restore(Shard& shard, uint64_t id);
  // The numbers of the files there are, newest first.
  static std::vector<uint64_t> List(const std::string& folder);
};

}  // namespace millrace::ps
