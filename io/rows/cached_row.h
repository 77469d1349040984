// Rows in the form in which they are kept in memory for later epochs: decoded, and quick to copy
// into a batch.
//
//   +-------------+-------------+-----------+----------+-------+------------------+-------------+
//   | keys K: u32 | weight: f32 | label: u8 | kind: u8 | zeros | K keys, u32, u64 | values: f32 |
//   |      4      |      4      |     1     |    1     |   2   |    4 K or 8 K    |  4 K or 0   |
//   +-------------+-------------+-----------+----------+-------+------------------+-------------+
//
// Values are there with kind kValues only.
//
// A record that is no row (kind kRaw) is kept as it was, behind its offset (u64) in the file, so
// that it is refused in every epoch with the same words.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "io/batch/row_sink.h"
#include "io/record/block_reader.h"
#include "io/rows/row_decoder.h"

namespace millrace::io {

// Replaces the records of `block` by cached rows. `rows` is scratch.
void CacheRows(RowDecoder& decoder, Framing framing, bool wide, RowSink& rows, Block& block);

// The offset that a record of kind kRaw was at.
uint64_t CachedRecordOffset(std::string_view record);

// Decodes cached rows; `decoder` words the errors of those that are none.
std::unique_ptr<RowDecoder> MakeCachedRowDecoder(std::unique_ptr<RowDecoder> decoder);

}  // namespace millrace::io
