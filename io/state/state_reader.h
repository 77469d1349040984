// Reads a state file, see state_file.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "io/base/pod_vector.h"
#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/state/state_fields.h"
#include "io/state/state_file.h"

namespace millrace::io {

// Entries of a block, decoded.
struct StateBlock {
  PodVector<uint64_t> keys;
  PodVector<float> floats;  // floats_per_entry for each key
  size_t floats_per_entry = 0;

  size_t size() const { return keys.size(); }
  std::span<const float> state(size_t i) const {
    return {floats.data() + i * floats_per_entry, floats_per_entry};
  }
};

// Errors name file, offset, expected and found. Not thread-safe.
class StateReader {
 public:
  static Result<StateReader> Open(const std::string& path);
  // For data that is at hand; `name` stands for the file in messages.
  static Result<StateReader> Open(const std::string& name, std::unique_ptr<io::ByteSource> bytes);

  const StateFields& fields() const { return fields_; }
  size_t floats_per_entry() const { return floats_per_entry_; }

  // True and a block of at least one entry, false when the end was reached and is right, or an
  // error. The block's memory is reused.
  Result<bool> Next(StateBlock& block);

 private:
  struct BlockHeader {
    uint32_t entries, raw_bytes, packed_bytes;
  };

  StateReader(std::string path, std::unique_ptr<io::ByteSource> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  Status ReadHeader();
  Status ReadMore(size_t size);
  Status ReadCrc();
  Status CheckBlockHeader(const BlockHeader& header) const;
  Status Unpack(const BlockHeader& header);
  Status Decode(const BlockHeader& header, StateBlock& block);
  Status ReadEnd();
  Status Damaged(const std::string& what) const;

  std::string path_;
  std::unique_ptr<io::ByteSource> bytes_;
  StateFields fields_;
  size_t floats_per_entry_ = 0;
  uint64_t part_offset_ = 0;  // where the part (header, block, end) in part_ begins
  RawBuffer part_;
  RawBuffer raw_;
  uint64_t total_entries_ = 0;
  uint64_t last_key_ = 0;
};

}  // namespace millrace::io
