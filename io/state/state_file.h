// The container of models and checkpoints: named fields, then entries of a key and some floats,
// sorted by key. Numbers are little-endian; a CRC is CRC-32C, masked as in TFRecord.
//
//   file   = header, blocks, end; nothing behind
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
// Both directions are streams: of the entries, one block is in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::io {

constexpr char kStateMagic[] = "MILLRACE";
constexpr size_t kStateMagicBytes = 8;
constexpr uint32_t kStateVersion = 1;
constexpr size_t kStateHeaderBytes = kStateMagicBytes + 12;  // before the fields
constexpr size_t kStateBlockHeaderBytes = 12;
constexpr size_t kStateCrcBytes = 4;

// A reader refuses more before it allocates anything for it.
constexpr size_t kMaxStateFloats = 64;
constexpr size_t kMaxStateFieldBytes = 1 << 20;
constexpr size_t kMaxStateBlockBytes = 4 << 20;                            // unpacked
constexpr size_t kMaxStatePackedBytes = kMaxStateBlockBytes + (64 << 10);  // zstd may add a little

}  // namespace millrace::io
