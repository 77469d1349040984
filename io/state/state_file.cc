// SPDX-License-Identifier: Apache-2.0
#include "io/state/state_file.h"

#include <algorithm>
#include <cstring>

#include "io/base/crc32c.h"
#include "io/record/compressor.h"
#include "io/record/record_format.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

constexpr int kZstdLevel = 1;
constexpr size_t kMaxVarintBytes = 10;

void AppendU32(RawBuffer& out, size_t value) {
  char bytes[4];
  StoreU32(bytes, static_cast<uint32_t>(value));
  out.Append(bytes, sizeof bytes);
}

void AppendU64(RawBuffer& out, uint64_t value) {
  char bytes[8];
  StoreU64(bytes, value);
  out.Append(bytes, sizeof bytes);
}

void AppendVarint(RawBuffer& out, uint64_t value) {
  char bytes[kMaxVarintBytes];
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<char>(value | 0x80);
  bytes[size++] = static_cast<char>(value);
  out.Append(bytes, size);
}

}  // namespace

Result<StateWriter> StateWriter::Create(const std::string& path, const StateFields& fields,
                                        const StateOptions& options) {
  CHECK(options.floats_per_entry > 0 && options.floats_per_entry <= kMaxStateFloats);
  CHECK(options.block_bytes <= kMaxStateBlockBytes / 2);
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, options.at_path));
  StateWriter writer(std::move(file), options);
  RETURN_IF_ERROR(writer.WriteHeader(fields));
  return writer;
}

Status StateWriter::WriteHeader(const StateFields& fields) {
  const std::string text = fields.Encode();
  CHECK(text.size() <= kMaxStateFieldBytes);
  packed_.Append(kStateMagic, kStateMagicBytes);
  AppendU32(packed_, kStateVersion);
  AppendU32(packed_, options_.floats_per_entry);
  AppendU32(packed_, text.size());
  packed_.Append(text.data(), text.size());
  return WriteChecked(packed_);
}

void StateWriter::Add(uint64_t key, std::span<const float> state) {
  if (!error_.ok()) return;
  CHECK(state.size() == options_.floats_per_entry);
  CHECK(total_entries_ == 0 || key > last_key_);
  AppendVarint(raw_, block_entries_ == 0 ? key : key - last_key_);
  raw_.Append(reinterpret_cast<const char*>(state.data()), state.size_bytes());
  last_key_ = key;
  ++block_entries_;
  ++total_entries_;
  if (raw_.size() >= options_.block_bytes) error_ = WriteBlock();
}

Status StateWriter::WriteBlock() {
  TRACE_SCOPE("write_state_block", profiler::Cat::kCheckpoint,
              {.keys = static_cast<int64_t>(block_entries_)});
  ASSIGN_OR_RETURN(const auto zstd, MakeCompressor(Compression::kZstd, kZstdLevel));
  packed_.Resize(kStateBlockHeaderBytes);
  RETURN_IF_ERROR(zstd->Add({raw_.data(), raw_.size()}, packed_));
  RETURN_IF_ERROR(zstd->Finish(packed_));
  StoreU32(packed_.data(), block_entries_);
  StoreU32(packed_.data() + 4, static_cast<uint32_t>(raw_.size()));
  StoreU32(packed_.data() + 8, static_cast<uint32_t>(packed_.size() - kStateBlockHeaderBytes));
  raw_.clear();
  block_entries_ = 0;
  return WriteChecked(packed_);
}

// Adds the CRC, writes, and empties the buffer.
Status StateWriter::WriteChecked(RawBuffer& bytes) {
  AppendU32(bytes, MaskedCrc32c(bytes.data(), bytes.size()));
  const Status status = file_.Write({bytes.data(), bytes.size()});
  bytes.clear();
  return status;
}

Status StateWriter::Finish() {
  RETURN_IF_ERROR(error_);
  if (block_entries_ > 0) RETURN_IF_ERROR(WriteBlock());
  for (size_t i = 0; i < kStateBlockHeaderBytes / 4; ++i) AppendU32(packed_, 0);
  AppendU64(packed_, total_entries_);
  RETURN_IF_ERROR(WriteChecked(packed_));
  return file_.Commit();
}

namespace {

// Moves `at` past the varint; false if no varint of at most 64 bits ends before `end`.
bool ReadVarint(const char*& at, const char* end, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && at < end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    if (shift == 63 && byte > 1) return false;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

Result<StateReader> StateReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(OpenedSource source, OpenSource(path, /*regular_file=*/true));
  return Open(path, std::move(source.bytes));
}

Result<StateReader> StateReader::Open(const std::string& name, std::unique_ptr<ByteSource> bytes) {
  StateReader reader(name, std::move(bytes));
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader;
}

Status StateReader::CorruptPart(const std::string& what) const {
  return Corrupt(path_ + ": offset " + std::to_string(part_offset_) + ": " + what);
}

// Appends the next `size` bytes to part_.
Status StateReader::ReadMore(size_t size) {
  const size_t old = part_.size();
  part_.Resize(old + size);
  size_t got = 0;
  RETURN_IF_ERROR(bytes_->Read({part_.data() + old, size}, &got));
  if (got == size) return {};
  return Corrupt(path_ + ": offset " + std::to_string(part_offset_ + old + got) + ": expected " +
                 std::to_string(size - got) + " more bytes, found the end of the file");
}

Status StateReader::ReadCrc() {
  RETURN_IF_ERROR(ReadMore(kStateCrcBytes));
  const size_t size = part_.size() - kStateCrcBytes;
  if (LoadU32(part_.data() + size) == MaskedCrc32c(part_.data(), size)) return {};
  return CorruptPart("the " + std::to_string(size) +
                     " bytes from here: expected the CRC after them, found another");
}

Status StateReader::ReadHeader() {
  RETURN_IF_ERROR(ReadMore(kStateHeaderBytes));
  const char* numbers = part_.data() + kStateMagicBytes;
  const uint32_t version = LoadU32(numbers), floats = LoadU32(numbers + 4);
  const uint32_t field_bytes = LoadU32(numbers + 8);
  if (std::memcmp(part_.data(), kStateMagic, kStateMagicBytes) != 0) {
    return CorruptPart(std::string("expected ") + kStateMagic +
                       ", the magic bytes of a model or checkpoint");
  }
  if (version != kStateVersion) {
    return CorruptPart("expected version " + std::to_string(kStateVersion) + ", found " +
                       std::to_string(version));
  }
  if (floats == 0 || floats > kMaxStateFloats || field_bytes > kMaxStateFieldBytes) {
    return CorruptPart("header: expected 1 to " + std::to_string(kMaxStateFloats) +
                       " floats an entry and at most " + std::to_string(kMaxStateFieldBytes) +
                       " bytes of fields, found " + std::to_string(floats) + " and " +
                       std::to_string(field_bytes));
  }
  RETURN_IF_ERROR(ReadMore(field_bytes));
  RETURN_IF_ERROR(ReadCrc());
  floats_per_entry_ = floats;
  Result<StateFields> fields = StateFields::Decode({part_.data() + kStateHeaderBytes, field_bytes});
  if (!fields.ok()) return CorruptPart(fields.status().message());
  fields_ = std::move(*fields);
  return {};
}

Result<bool> StateReader::Next(StateBlock& block) {
  TRACE_SCOPE("read_state_block", profiler::Cat::kCheckpoint);
  part_offset_ += part_.size();
  part_.clear();
  RETURN_IF_ERROR(ReadMore(kStateBlockHeaderBytes));
  const BlockHeader header = {LoadU32(part_.data()), LoadU32(part_.data() + 4),
                              LoadU32(part_.data() + 8)};
  if (header.entries == 0 && header.raw_bytes == 0 && header.packed_bytes == 0) {
    RETURN_IF_ERROR(ReadEnd());
    return false;
  }
  RETURN_IF_ERROR(CheckBlockHeader(header));
  RETURN_IF_ERROR(ReadMore(header.packed_bytes));
  RETURN_IF_ERROR(ReadCrc());
  RETURN_IF_ERROR(Unpack(header));
  RETURN_IF_ERROR(Decode(header, block));
  return true;
}

// Rejects impossible claims before anything is allocated for them.
Status StateReader::CheckBlockHeader(const BlockHeader& header) const {
  const size_t least = header.entries * (1 + floats_per_entry_ * sizeof(float));
  const bool possible = header.entries > 0 && header.raw_bytes <= kMaxStateBlockBytes &&
                        header.raw_bytes >= least && header.packed_bytes <= kMaxStatePackedBytes;
  if (possible) return {};
  return CorruptPart("block header: expected at most " + std::to_string(kMaxStateBlockBytes) +
                     " bytes of entries, found " + std::to_string(header.entries) + " entries in " +
                     std::to_string(header.raw_bytes) + " bytes, packed " +
                     std::to_string(header.packed_bytes));
}

Status StateReader::Unpack(const BlockHeader& header) {
  const std::string_view packed(part_.data() + kStateBlockHeaderBytes, header.packed_bytes);
  const OpenedSource zstd =
      Decompressed(std::make_unique<MemorySource>(packed), "block", Compression::kZstd);
  raw_.Resize(header.raw_bytes + 1);  // one more, to detect a longer frame
  size_t got = 0;
  const Status status = zstd.bytes->Read({raw_.data(), raw_.size()}, &got);
  if (!status.ok()) return CorruptPart(status.message());
  if (got == header.raw_bytes) return {};
  return CorruptPart("block: expected " + std::to_string(header.raw_bytes) +
                     " bytes unpacked, found " +
                     (got < header.raw_bytes ? std::to_string(got) : "more"));
}

Status StateReader::Decode(const BlockHeader& header, StateBlock& block) {
  const size_t state_bytes = floats_per_entry_ * sizeof(float);
  block.floats_per_entry = floats_per_entry_;
  block.keys.resize(header.entries);
  block.floats.resize(header.entries * floats_per_entry_);
  const char* at = raw_.data();
  const char* end = at + header.raw_bytes;
  uint64_t key = 0;
  for (size_t i = 0; i < header.entries; ++i) {
    uint64_t delta = 0;
    const bool whole = ReadVarint(at, end, delta) && static_cast<size_t>(end - at) >= state_bytes;
    if (!whole) return CorruptPart("block: entry " + std::to_string(i) + " is cut off");
    key += delta;
    if (key < delta || (total_entries_ > 0 && key <= last_key_)) {
      return CorruptPart("block: expected ascending keys, found " + std::to_string(key) +
                         " after " + std::to_string(last_key_));
    }
    std::memcpy(&block.floats[i * floats_per_entry_], at, state_bytes);
    at += state_bytes;
    block.keys[i] = last_key_ = key;
    ++total_entries_;
  }
  if (at == end) return {};
  return CorruptPart("block: expected " + std::to_string(header.entries) + " entries, found " +
                     std::to_string(end - at) + " bytes after them");
}

Status StateReader::ReadEnd() {
  RETURN_IF_ERROR(ReadMore(sizeof(uint64_t)));
  RETURN_IF_ERROR(ReadCrc());
  const uint64_t total = LoadU64(part_.data() + kStateBlockHeaderBytes);
  if (total != total_entries_) {
    return CorruptPart("expected " + std::to_string(total) + " entries in all, found " +
                       std::to_string(total_entries_));
  }
  char beyond = 0;
  size_t got = 0;
  RETURN_IF_ERROR(bytes_->Read({&beyond, 1}, &got));
  if (got == 0) return {};
  part_offset_ += part_.size();
  return CorruptPart("expected the end of the file, found more bytes");
}

}  // namespace millrace::io
