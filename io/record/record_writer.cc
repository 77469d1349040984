// SPDX-License-Identifier: Apache-2.0
#include "io/record/record_writer.h"

#include <cstdio>

#include "io/base/raw_buffer.h"
#include "io/record/compressor.h"
#include "io/record/record_format.h"

namespace millrace::io {
namespace {

constexpr size_t kWriteBytes = 256 << 10;

const char* Suffix(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      break;
    case Compression::kGzip:
      return ".gz";
    case Compression::kZlib:
      return ".zlib";
    case Compression::kZstd:
      return ".zst";
  }
  return "";
}

struct FrameEnds {
  char header[kRecordHeaderBytes];
  char footer[kRecordFooterBytes];
};

FrameEnds EndsOf(std::string_view record) {
  FrameEnds ends;
  StoreU64(ends.header, record.size());
  StoreU32(ends.header + 8, MaskedCrc32c(ends.header, 8));
  StoreU32(ends.footer, MaskedCrc32c(record.data(), record.size()));
  return ends;
}

uint64_t CountFrames(std::string_view frames) {
  uint64_t count = 0;
  for (; !frames.empty(); ++count) {
    CHECK(frames.size() >= kRecordHeaderBytes + kRecordFooterBytes);
    const uint64_t length = LoadU64(frames.data());
    CHECK(length <= frames.size() - kRecordHeaderBytes - kRecordFooterBytes);
    frames.remove_prefix(kRecordHeaderBytes + length + kRecordFooterBytes);
  }
  return count;
}

}  // namespace

struct RecordWriter::Impl {
  Impl(OutputFile output, std::unique_ptr<Compressor> compressing)
      : file(std::move(output)), compressor(std::move(compressing)) {}

  // All bytes pass through here: `frames` buffers them, `packed` holds them compressed.
  Status Put(std::string_view bytes) {
    written += bytes.size();
    if (frames.size() > 0 || bytes.size() < kWriteBytes) {
      frames.Append(bytes.data(), bytes.size());
      return frames.size() < kWriteBytes ? Status() : FlushFrames();
    }
    return CompressAndWrite(bytes);
  }

  Status FlushFrames() {
    const Status passed = CompressAndWrite({frames.data(), frames.size()});
    frames.clear();
    return passed;
  }

  Status CompressAndWrite(std::string_view bytes) {
    if (!compressor) return file.Write(bytes);
    // Small pieces, so that `packed` stays small however large the record is.
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kWriteBytes);
      RETURN_IF_ERROR(compressor->Add(piece, packed));
      if (packed.size() >= kWriteBytes) RETURN_IF_ERROR(WritePacked());
      bytes.remove_prefix(piece.size());
    }
    return {};
  }

  Status WritePacked() {
    const Status done = file.Write({packed.data(), packed.size()});
    packed.clear();
    return done;
  }

  Status PutRecord(std::string_view record) {
    if (record.size() > kMaxRecordBytes) {
      return Invalid(file.path() + ": a record of " + std::to_string(record.size()) +
                     " bytes; the format's readers take at most " +
                     std::to_string(kMaxRecordBytes));
    }
    const FrameEnds ends = EndsOf(record);
    RETURN_IF_ERROR(Put({ends.header, kRecordHeaderBytes}));
    RETURN_IF_ERROR(Put(record));
    return Put({ends.footer, kRecordFooterBytes});
  }

  Status Finish() {
    RETURN_IF_ERROR(FlushFrames());
    if (compressor) {
      RETURN_IF_ERROR(compressor->Finish(packed));
      RETURN_IF_ERROR(WritePacked());
    }
    return file.Commit();
  }

  // Keeps the first error: a file with missing bytes must not be completed.
  Status Keep(const Status& result) {
    if (!result.ok()) failure = result;
    return result;
  }

  OutputFile file;
  std::unique_ptr<Compressor> compressor;  // null: plain
  RawBuffer frames;
  RawBuffer packed;
  uint64_t records = 0;
  uint64_t written = 0;
  bool closed = false;
  Status failure;
};

Result<RecordWriter> RecordWriter::Create(const std::string& path, WriterOptions options) {
  ASSIGN_OR_RETURN(auto compressor, MakeCompressor(options.compression, options.level));
  ASSIGN_OR_RETURN(auto file, OutputFile::Create(path, options.at_path));
  return RecordWriter(std::make_unique<Impl>(std::move(file), std::move(compressor)));
}

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;
RecordWriter::~RecordWriter() = default;

Status RecordWriter::Append(std::string_view record) {
  CHECK(!impl_->closed);
  if (!impl_->failure.ok()) return impl_->failure;
  ++impl_->records;
  return impl_->Keep(impl_->PutRecord(record));
}

Status RecordWriter::AppendFramed(std::string_view frames) {
  CHECK(!impl_->closed);
  if (!impl_->failure.ok()) return impl_->failure;
  impl_->records += CountFrames(frames);
  return impl_->Keep(impl_->Put(frames));
}

Status RecordWriter::Close() {
  if (!impl_->failure.ok() || impl_->closed) return impl_->failure;
  impl_->closed = true;
  return impl_->Keep(impl_->Finish());
}

uint64_t RecordWriter::records() const { return impl_->records; }
uint64_t RecordWriter::bytes() const { return impl_->written; }

void AppendFrame(std::string_view record, std::string& out) {
  const FrameEnds ends = EndsOf(record);
  out.append(ends.header, kRecordHeaderBytes);
  out.append(record);
  out.append(ends.footer, kRecordFooterBytes);
}

std::string ShardName(std::string_view base, size_t index, size_t count, Compression compression) {
  char number[64];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu.tfrecord", index, count);
  return std::string(base) + number + Suffix(compression);
}

}  // namespace millrace::io
