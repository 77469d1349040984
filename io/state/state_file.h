// SPDX-License-Identifier: Apache-2.0
// The file format of models and checkpoints: named fields, then entries of a key and some floats,
// sorted by key. Numbers are little-endian; CRCs are CRC-32C, masked as in TFRecord.
//
//   file   = header, blocks, end; nothing after it
//
//   header   +----------+------------+-----------+----------+--------+-----------------+
//            | MILLRACE | version: 1 | floats: F | bytes: B | fields | CRC of all that |
//            |     8    |      4     |     4     |    4     |   B    |        4        |
//            +----------+------------+-----------+----------+--------+-----------------+
//   block    +------------+----------------+----------+-------------+-----------------+
//            | entries: E | unpacked bytes | bytes: P | zstd frame  | CRC of all that |
//            |      4     |       4        |    4     |      P      |        4        |
//            +------------+----------------+----------+-------------+-----------------+
//            unpacked: E times a key and F float32. The key is a varint: the first of a block
//            as it is, each other as the difference to the one before. Keys ascend strictly,
//            from block to block as well.
//   end      +-------+------------------+-----------------+
//            | zeros | total entries: 8 | CRC of all that |
//            |  12   |        8         |        4        |
//            +-------+------------------+-----------------+
//
// Writer and reader are streams: they hold one block of entries in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "io/base/pod_vector.h"
#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/record/output_file.h"
#include "io/state/state_fields.h"

namespace millrace::io {

constexpr char kStateMagic[] = "MILLRACE";
constexpr size_t kStateMagicBytes = 8;
constexpr uint32_t kStateVersion = 1;
constexpr size_t kStateHeaderBytes = kStateMagicBytes + 12;  // before the fields
constexpr size_t kStateBlockHeaderBytes = 12;
constexpr size_t kStateCrcBytes = 4;

// The reader rejects larger sizes before it allocates memory for them.
constexpr size_t kMaxStateFloats = 1 << 14;
constexpr size_t kMaxStateFieldBytes = 256 << 20;
constexpr size_t kMaxStateBlockBytes = 4 << 20;                            // unpacked
constexpr size_t kMaxStatePackedBytes = kMaxStateBlockBytes + (64 << 10);  // zstd may add a little

struct StateOptions {
  size_t floats_per_entry = 1;
  size_t block_bytes = 1 << 20;  // uncompressed, approximate; at most kMaxStateBlockBytes / 2
  AtPath at_path = AtPath::kFollow;
};

// Writes a state file. The file appears under its name, complete and synced, when Finish succeeds.
// Not thread-safe.
class StateWriter {
 public:
  static Result<StateWriter> Create(const std::string& path, const StateFields& fields,
                                    const StateOptions& options);

  // Keys ascend; `state` has floats_per_entry numbers. After an error (such as a full disk) entries
  // are ignored and Finish returns the error.
  void Add(uint64_t key, std::span<const float> state);
  Status Finish();

 private:
  StateWriter(OutputFile file, const StateOptions& options)
      : file_(std::move(file)), options_(options) {}

  Status WriteHeader(const StateFields& fields);
  Status WriteBlock();
  Status WriteChecked(RawBuffer& bytes);

  OutputFile file_;
  StateOptions options_;
  Status error_;
  RawBuffer raw_;     // entries of the current block
  RawBuffer packed_;  // bytes of a finished block
  uint32_t block_entries_ = 0;
  uint64_t total_entries_ = 0;
  uint64_t last_key_ = 0;
};

// Decoded entries of a block.
struct StateBlock {
  PodVector<uint64_t> keys;
  PodVector<float> floats;  // floats_per_entry for each key
  size_t floats_per_entry = 0;

  size_t size() const { return keys.size(); }
  std::span<const float> state(size_t i) const {
    return {floats.data() + i * floats_per_entry, floats_per_entry};
  }
};

// Reads a state file. Errors name file, offset, expected and found. Not thread-safe.
class StateReader {
 public:
  static Result<StateReader> Open(const std::string& path);
  // Reads `bytes`; messages call them `name`.
  static Result<StateReader> Open(const std::string& name, std::unique_ptr<ByteSource> bytes);

  const StateFields& fields() const { return fields_; }
  size_t floats_per_entry() const { return floats_per_entry_; }

  // True and a block of at least one entry, false at a valid end of the file, or an error. The
  // block's memory is reused.
  Result<bool> Next(StateBlock& block);

 private:
  struct BlockHeader {
    uint32_t entries, raw_bytes, packed_bytes;
  };

  StateReader(std::string path, std::unique_ptr<ByteSource> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  Status ReadHeader();
  Status ReadMore(size_t size);
  Status ReadCrc();
  Status CheckBlockHeader(const BlockHeader& header) const;
  Status Unpack(const BlockHeader& header);
  Status Decode(const BlockHeader& header, StateBlock& block);
  Status ReadEnd();
  Status CorruptPart(const std::string& what) const;

  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  StateFields fields_;
  size_t floats_per_entry_ = 0;
  uint64_t part_offset_ = 0;  // of part_ in the file
  RawBuffer part_;            // the header, a block or the end
  RawBuffer raw_;
  uint64_t total_entries_ = 0;
  uint64_t last_key_ = 0;
};

}  // namespace millrace::io
