// Writes a state file, see state_file.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/output_file.h"
#include "io/state/state_fields.h"
#include "io/state/state_file.h"

namespace millrace::io {

struct StateOptions {
  size_t floats_per_entry = 1;
  size_t block_bytes = 1 << 20;  // unpacked, about; at most half of kMaxStateBlockBytes
};

// The file appears under its name when Finish has succeeded, whole and synced, and not before.
// Not thread-safe.
class StateWriter {
 public:
  static Result<StateWriter> Create(const std::string& path, const StateFields& fields,
                                    const StateOptions& options);

  // Keys ascend; `state` has floats_per_entry numbers. After an error (the disk is full, say)
  // entries are ignored and Finish returns it.
  void Add(uint64_t key, std::span<const float> state);
  Status Finish();

 private:
  StateWriter(io::OutputFile file, const StateOptions& options)
      : file_(std::move(file)), options_(options) {}

  Status WriteHeader(const StateFields& fields);
  Status WriteBlock();
  Status WriteChecked(RawBuffer& bytes);

  io::OutputFile file_;
  StateOptions options_;
  Status error_;
  RawBuffer raw_;     // of the block that is being filled
  RawBuffer packed_;  // the bytes of a finished one
  uint32_t block_entries_ = 0;
  uint64_t total_entries_ = 0;
  uint64_t last_key_ = 0;
};

}  // namespace millrace::io
