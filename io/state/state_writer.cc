#include "io/state/state_writer.h"

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
  io::StoreU32(bytes, static_cast<uint32_t>(value));
  out.Append(bytes, sizeof bytes);
}

void AppendU64(RawBuffer& out, uint64_t value) {
  char bytes[8];
  io::StoreU64(bytes, value);
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
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
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
  ASSIGN_OR_RETURN(const auto zstd, io::MakeCompressor(io::Compression::kZstd, kZstdLevel));
  packed_.Resize(kStateBlockHeaderBytes);
  RETURN_IF_ERROR(zstd->Add({raw_.data(), raw_.size()}, packed_));
  RETURN_IF_ERROR(zstd->Finish(packed_));
  io::StoreU32(packed_.data(), block_entries_);
  io::StoreU32(packed_.data() + 4, static_cast<uint32_t>(raw_.size()));
  io::StoreU32(packed_.data() + 8, static_cast<uint32_t>(packed_.size() - kStateBlockHeaderBytes));
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

}  // namespace millrace::io
