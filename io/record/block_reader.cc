// SPDX-License-Identifier: Apache-2.0
#include "io/record/block_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "io/base/printable.h"
#include "io/base/random.h"
#include "io/record/csv_framing.h"
#include "io/record/record_format.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

constexpr size_t kEmptyFrame = kRecordHeaderBytes + kRecordFooterBytes;

std::string Hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

std::string Expected(const char* what, const std::string& expected, const std::string& found) {
  return std::string(what) + ": expected " + expected + ", found " + found;
}

std::string AtMost(uint64_t bytes) { return "at most " + std::to_string(bytes) + " bytes"; }

// For a record above max_record_bytes, which may be right.
std::string LimitAdvice(uint64_t length) {
  return length > kMaxRecordBytes ? "" : "; if the file is right, raise max_record_bytes";
}

std::string TruncatedText(uint64_t expected, uint64_t found) {
  return Expected("truncated record", std::to_string(expected) + " bytes", std::to_string(found));
}

// Moves of the `rest` of a block stay linear in the file size, whatever lengths its headers claim,
// if each follows at least rest / 8 consumed bytes; and 9/8 of kMaxRecordBytes still fits into a
// RecordSpan.
bool MoveIsWorthwhile(size_t consumed, size_t rest) { return consumed > 0 && consumed >= rest / 8; }

}  // namespace

Result<OnCorrupt> OnCorruptFromName(std::string_view name) {
  if (name == "fail") return OnCorrupt::kFail;
  if (name == "skip") return OnCorrupt::kSkip;
  return Invalid("on_corrupt: expected fail or skip, found '" + std::string(name) + "'");
}

void CorruptionStats::Add(uint64_t skipped_bytes, const std::string& message) {
  if (events++ == 0) first = message;
  bytes += skipped_bytes;
}

void CorruptionStats::Merge(const CorruptionStats& other) {
  if (events == 0) first = other.first;
  events += other.events;
  bytes += other.bytes;
}

uint64_t Block::offset(size_t i, Framing framing) const {
  if (framing == Framing::kTable) return LoadU64(record(i).data());  // see io/table/table_row.h
  return base_offset + records[i].begin - (framing == Framing::kTfRecord ? kRecordHeaderBytes : 0);
}

Result<std::unique_ptr<BlockReader>> BlockReader::Open(const std::string& path,
                                                       const BlockOptions& options) {
  ASSIGN_OR_RETURN(OpenedSource source, OpenSource(path, options.regular_file));
  return std::make_unique<BlockReader>(path, std::move(source), options);
}

BlockReader::BlockReader(std::string name, OpenedSource source, const BlockOptions& options)
    : path_(std::move(name)), source_(std::move(source)), options_(options) {
  options_.block_bytes = std::max<size_t>(options_.block_bytes, 1);
  is_header_next_ = options_.framing == Framing::kCsv && !options_.csv_header.empty();
}

Result<bool> BlockReader::Next(Block& block) {
  block.records.clear();
  block.bytes.clear();
  block.bytes.Append(carry_.data(), carry_.size());
  block.base_offset = carry_offset_;
  Scan scan;
  size_t target = options_.block_bytes;
  while (error_.ok()) {
    Fill(block.bytes, target);
    ScanRecords(block, scan);
    if (IsDone(block, scan)) break;
    if (block.records.empty()) DropConsumed(block, scan);
    // The scan needs more. Memory grows with the bytes that arrive, not with the length that a
    // header claims.
    const size_t size = block.bytes.size();
    target = std::clamp(scan.want, size + 1, std::max(2 * size, options_.block_bytes) + 1);
    target = std::max(target, options_.block_bytes + (NearCorruption(block, scan) ? size : 0));
  }
  carry_.clear();
  carry_.Append(block.bytes.data() + scan.consumed, block.bytes.size() - scan.consumed);
  carry_offset_ = block.base_offset + scan.consumed;
  block.digest = Digest(block, scan);
  if (!block.records.empty()) return true;
  RETURN_IF_ERROR(EndStatus());
  return false;
}

uint64_t BlockReader::Digest(const Block& block, const Scan& scan) const {
  if (options_.framing != Framing::kTfRecord) return Crc32c(block.bytes.data(), scan.consumed);
  // A polynomial in an odd number: any single changed CRC changes it.
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t digest = 0;
  for (const RecordSpan& record : block.records) {
    digest = digest * kOdd + LoadU32(block.bytes.data() + record.begin + record.size);
  }
  return digest;
}

// Whether a block can be returned as it is when the scan cannot continue.
bool BlockReader::IsDone(const Block& block, const Scan& scan) const {
  const size_t rest = block.bytes.size() - scan.consumed;
  if (source_ended_ && rest == 0) return true;
  if (block.records.empty()) return false;
  // After a header with a wrong length the rest may be long and the consumed part short.
  return !NearCorruption(block, scan) || MoveIsWorthwhile(scan.consumed, rest);
}

// Whether the record at scan.consumed may overlap one that was found corrupt.
bool BlockReader::NearCorruption(const Block& block, const Scan& scan) const {
  return crcs_.Covers(block.base_offset + scan.consumed + kRecordHeaderBytes);
}

// Makes room when everything so far was skipped.
void BlockReader::DropConsumed(Block& block, Scan& scan) {
  const size_t rest = block.bytes.size() - scan.consumed;
  if (!MoveIsWorthwhile(scan.consumed, rest)) return;
  std::memmove(block.bytes.data(), block.bytes.data() + scan.consumed, rest);
  block.bytes.Resize(rest);
  block.base_offset += scan.consumed;
  scan.want -= std::min(scan.want, scan.consumed);
  scan.no_quotes -= std::min(scan.no_quotes, scan.consumed);
  scan.no_newline -= std::min(scan.no_newline, scan.consumed);
  scan.consumed = 0;
}

// The error that ended the data, or ok at its regular end.
Status BlockReader::EndStatus() {
  if (!error_.ok()) return error_;
  if (source_error_.ok()) return {};
  const Status error = std::exchange(source_error_, Status());
  // An error of the operating system is not corrupt data: it is never skipped.
  if (options_.on_corrupt == OnCorrupt::kFail || error.code() != Code::kCorrupt)
    return error_ = error;
  CountCorruption(0, error.message());
  return {};
}

// Reads until `bytes` has `target` bytes or the source ends; with `streaming`, at least one byte.
void BlockReader::Fill(RawBuffer& bytes, size_t target) {
  const size_t old = bytes.size();
  if (source_ended_ || old >= target) return;
  profiler::TraceScope span("read_block", profiler::Cat::kDisk);
  bytes.Resize(target);
  size_t got = 0;
  const std::span<char> room(bytes.data() + old, target - old);
  source_error_ =
      options_.streaming ? source_.bytes->ReadSome(room, &got) : source_.bytes->Read(room, &got);
  bytes.Resize(old + got);
  span.args().bytes = static_cast<int64_t>(got);
  const size_t least = options_.streaming ? old + 1 : target;
  source_ended_ = !source_error_.ok() || old + got < least;
}

void BlockReader::ScanRecords(Block& block, Scan& scan) {
  TRACE_SCOPE("frame_crc", profiler::Cat::kInput,
              {.bytes = static_cast<int64_t>(block.bytes.size())});
  Step step = Step::kContinue;
  while (step == Step::kContinue) {
    if (scan.consumed == block.bytes.size() && !resyncing_) return;
    if (resyncing_) {
      step = Resync(block, scan);
    } else if (options_.framing == Framing::kTfRecord) {
      step = ScanTfRecord(block, scan);
    } else if (options_.framing == Framing::kLines) {
      step = ScanLine(block, scan);
    } else {
      step = ScanCsv(block, scan);
    }
  }
}

BlockReader::Step BlockReader::Need(Scan& scan, size_t size) const {
  scan.want = size;
  return Step::kNeedBytes;
}

BlockReader::Step BlockReader::ScanTfRecord(Block& block, Scan& scan) {
  const char* frame = block.bytes.data() + scan.consumed;
  const size_t left = block.bytes.size() - scan.consumed;
  if (left < kRecordHeaderBytes) {
    if (!source_ended_) return Need(scan, scan.consumed + kRecordHeaderBytes);
    return TruncatedRecord(block, scan, TruncatedText(kRecordHeaderBytes, left));
  }
  const uint64_t length = LoadU64(frame);
  const uint32_t length_crc = MaskedCrc32c(frame, 8);
  if (LoadU32(frame + 8) != length_crc) {
    return CorruptRecord(block, scan,
                         Expected("length CRC", Hex(length_crc), Hex(LoadU32(frame + 8))));
  }
  if (length > MaxRecordBytes()) {
    return CorruptRecord(block, scan,
                         Expected("record length", AtMost(MaxRecordBytes()),
                                  std::to_string(length) + LimitAdvice(length)));
  }
  const size_t size = kEmptyFrame + length;
  if (left < size) {
    if (!source_ended_) return Need(scan, scan.consumed + size);
    return TruncatedRecord(block, scan, TruncatedText(size, left));
  }
  const char* data = frame + kRecordHeaderBytes;
  const uint32_t data_crc = MaskCrc(
      NearCorruption(block, scan) ? DataCrc(block, scan.consumed, length) : Crc32c(data, length));
  if (LoadU32(data + length) != data_crc) {
    return CorruptData(block, scan, size,
                       Expected("data CRC", Hex(data_crc), Hex(LoadU32(data + length))));
  }
  block.records.push_back(
      {static_cast<uint32_t>(scan.consumed + kRecordHeaderBytes), static_cast<uint32_t>(length)});
  scan.consumed += size;
  return Step::kContinue;
}

// Whether a text file begins with a record's header.
bool BlockReader::IsTfRecordFile(const Block& block, const Scan& scan) const {
  return block.base_offset + scan.consumed == 0 && block.bytes.size() >= kRecordHeaderBytes &&
         HeaderIsValid(block.bytes.data());
}

BlockReader::Step BlockReader::TooLong(const Block& block, Scan& scan, size_t found, bool has_end) {
  return CorruptRecord(
      block, scan,
      Expected("line length", AtMost(MaxRecordBytes()),
               (has_end ? "" : "no newline in ") + std::to_string(found) + LimitAdvice(found)));
}

// Adds the record of `size` bytes at scan.consumed.
BlockReader::Step BlockReader::AddLine(Block& block, Scan& scan, size_t size, bool has_newline) {
  const char* line = block.bytes.data() + scan.consumed;
  const size_t consumed = size + (has_newline ? 1 : 0);
  if (size > 0 && line[size - 1] == '\r') --size;
  if (is_header_next_) {
    is_header_next_ = false;
    if (std::string_view(line, size) != options_.csv_header) {
      error_ = WrongHeader({line, size});
      return Step::kStop;
    }
  } else {
    block.records.push_back({static_cast<uint32_t>(scan.consumed), static_cast<uint32_t>(size)});
  }
  scan.consumed += consumed;
  return Step::kContinue;
}

// The newline that ends the line at scan.consumed, or null. A line that arrives in many pieces is
// searched once.
const char* BlockReader::FindNewline(const Block& block, Scan& scan) {
  const char* data = block.bytes.data();
  const size_t from = std::clamp(scan.no_newline, scan.consumed, block.bytes.size());
  const void* newline = std::memchr(data + from, '\n', block.bytes.size() - from);
  scan.no_newline = newline ? from : block.bytes.size();
  return static_cast<const char*>(newline);
}

BlockReader::Step BlockReader::ScanLine(Block& block, Scan& scan) {
  const char* line = block.bytes.data() + scan.consumed;
  const size_t left = block.bytes.size() - scan.consumed;
  if (IsTfRecordFile(block, scan)) {
    error_ = Invalid(path_ +
                     ": expected lines of text, found a TFRecord file (format=tfrecord reads it)");
    return Step::kStop;
  }
  const char* newline = FindNewline(block, scan);
  const size_t found = newline ? static_cast<size_t>(newline - line) : left;
  if (found > MaxRecordBytes()) return TooLong(block, scan, found, newline != nullptr);
  if (!newline && !source_ended_) {
    return Need(scan, scan.consumed + std::min<uint64_t>(2 * left, MaxRecordBytes() + 1));
  }
  if (!newline && !source_error_.ok()) return TruncatedRecord(block, scan, "");
  return AddLine(block, scan, found, newline != nullptr);
}

// Whether the bytes from scan.consumed to `end` have an odd number of quotes.
bool BlockReader::LineHasOddQuotes(const Block& block, Scan& scan, size_t end) const {
  const char* data = block.bytes.data();
  scan.no_quotes = std::max(scan.no_quotes, scan.consumed);
  // One search serves all lines up to the next quote.
  if (scan.no_quotes < end && data[scan.no_quotes] != '"') {
    const auto* quote = static_cast<const char*>(
        std::memchr(data + scan.no_quotes, '"', block.bytes.size() - scan.no_quotes));
    scan.no_quotes = quote ? static_cast<size_t>(quote - data) : block.bytes.size();
  }
  if (scan.no_quotes >= end) return false;
  return CountQuotes({data + scan.consumed, end - scan.consumed}) % 2 == 1;
}

// In CSV without errors a record ends at the first newline after an even number of quotes. Only
// where that number is odd, quotes are followed cell by cell: a quote in the middle of a cell,
// which is an error of its line, then does not take the lines after it into its record.
BlockReader::Step BlockReader::ScanCsv(Block& block, Scan& scan) {
  if (IsTfRecordFile(block, scan)) {
    error_ =
        Invalid(path_ + ": expected CSV text, found a TFRecord file (format=tfrecord reads it)");
    return Step::kStop;
  }
  if (block.base_offset + scan.consumed == 0) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    const std::string_view begin =
        std::string_view(block.bytes.data(), block.bytes.size()).substr(0, kMark.size());
    if (begin == kMark) {
      scan.consumed += kMark.size();
      return Step::kContinue;
    }
    if (kMark.starts_with(begin) && !source_ended_) return Need(scan, kMark.size());
  }
  const char* line = block.bytes.data() + scan.consumed;
  const size_t left = block.bytes.size() - scan.consumed;
  const uint64_t limit = MaxRecordBytes();
  const char* newline = FindNewline(block, scan);
  CsvEnd end = {newline ? CsvEnd::Kind::kNewline : CsvEnd::Kind::kNoEnd,
                newline ? static_cast<size_t>(newline - line) : left};
  const uint64_t offset = block.base_offset + scan.consumed;
  if (LineHasOddQuotes(block, scan, scan.consumed + end.at)) {
    const bool is_line = newline && offset < lines_until_;
    end = FindCsvEnd({line, is_line ? end.at : left}, options_.csv_delimiter);
    if (is_line && end.kind == CsvEnd::Kind::kNoEnd) end.kind = CsvEnd::Kind::kNewline;
    // Before the end of the line is there, a quote after this one may make their number even.
    const bool is_line_whole = newline != nullptr || source_ended_;
    if (end.kind == CsvEnd::Kind::kBroken && end.at <= limit && is_line_whole) {
      return BrokenQuotes(block, scan,
                          Expected("byte after a closing quote", "a delimiter or a line end",
                                   "'" + Printable({line + end.at, 1}) + "'"),
                          end.at);
    }
    if (end.kind == CsvEnd::Kind::kOpen && (is_line || (source_ended_ && source_error_.ok()))) {
      return BrokenQuotes(
          block, scan,
          Expected("quoted cell", "a closing quote",
                   std::string(is_line ? "the end of the line" : "the end of the file") +
                       " (the cell begins at offset " + std::to_string(offset + end.at) + ")"),
          is_line ? static_cast<size_t>(newline - line) : left);
    }
  }
  const bool has_end = end.kind == CsvEnd::Kind::kNewline;
  const size_t found = has_end ? end.at : left;
  if (found > limit) {
    lines_until_ = std::max(lines_until_, offset + found);
    return TooLong(block, scan, found, has_end);
  }
  if (!has_end && !source_ended_) {
    return Need(scan, scan.consumed + std::min<uint64_t>(2 * left, limit + 1));
  }
  if (!has_end && !source_error_.ok()) return TruncatedRecord(block, scan, "");
  return AddLine(block, scan, found, has_end);
}

// The search for the next record continues after the line's end. The lines up to scan.consumed +
// `end` were read as one record: to read each of them only once more, none of them continues in the
// next.
BlockReader::Step BlockReader::BrokenQuotes(const Block& block, Scan& scan, const std::string& what,
                                            size_t end) {
  lines_until_ = std::max(lines_until_, block.base_offset + scan.consumed + end);
  return CorruptRecord(block, scan, what);
}

Status BlockReader::WrongHeader(std::string_view found) const {
  const auto next_cell = [&](std::string_view& header) {
    const size_t end = std::min(header.find(options_.csv_delimiter), header.size());
    const std::string_view cell = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    return cell;
  };
  const auto shown = [](std::string_view text) {
    constexpr size_t kShown = 60;
    return Printable(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
  };
  std::string_view ours = options_.csv_header, theirs = found;
  for (size_t column = 1;; ++column) {
    const bool ours_ends = ours.empty(), theirs_ends = theirs.empty();
    const std::string_view expected = next_cell(ours), other = next_cell(theirs);
    if (expected == other && !ours_ends && !theirs_ends) continue;
    return Invalid(path_ + ": header: expected " +
                   (ours_ends ? "no column " + std::to_string(column)
                              : "column " + std::to_string(column) + " '" + shown(expected) + "'") +
                   ", found " + (theirs_ends ? "the end" : "'" + shown(other) + "'") +
                   "; expected columns " + shown(options_.csv_header) + ", found columns " +
                   shown(found));
  }
}

std::string BlockReader::Where(uint64_t offset) const {
  const bool compressed = source_.compression != Compression::kNone;
  return path_ + ": offset " + std::to_string(offset) +
         (compressed ? std::string(" of the decompressed ") + CompressionName(source_.compression) +
                           " data: "
                     : std::string(": "));
}

// The data ends inside the record at scan.consumed, because the file is short or the source failed.
BlockReader::Step BlockReader::TruncatedRecord(const Block& block, Scan& scan,
                                               const std::string& what) {
  if (source_error_.ok()) return CorruptRecord(block, scan, what);
  if (source_error_.code() != Code::kCorrupt) {
    error_ = source_error_;
    return Step::kStop;
  }
  const uint64_t offset = block.base_offset + scan.consumed;
  const Status source_error = std::exchange(source_error_, Status());
  return HandleCorruption(
      offset, scan,
      source_error.message() + " (the last record began at offset " + std::to_string(offset) + ")");
}

BlockReader::Step BlockReader::CorruptRecord(const Block& block, Scan& scan,
                                             const std::string& what) {
  const uint64_t offset = block.base_offset + scan.consumed;
  std::string message = Where(offset) + what;
  // A file that is corrupt from its first byte on may have another format.
  if (offset == 0 && options_.framing == Framing::kTfRecord && options_.describe_content) {
    message += options_.describe_content({block.bytes.data(), block.bytes.size()});
  }
  return HandleCorruption(offset, scan, message);
}

// The record at scan.consumed is corrupt: stop, or start the search for the next whole one.
BlockReader::Step BlockReader::HandleCorruption(uint64_t offset, Scan& scan,
                                                const std::string& message) {
  if (options_.on_corrupt == OnCorrupt::kFail) {
    error_ = Corrupt(message);
    return Step::kStop;
  }
  resyncing_ = true;
  corruption_offset_ = offset;
  corruption_message_ = message;
  scan.consumed += 1;
  return Step::kContinue;
}

// The frame of `size` bytes at scan.consumed is complete but its data is corrupt. If a valid header
// follows, only this record is skipped; otherwise bytes were inserted or removed, and the search
// for the next record starts.
BlockReader::Step BlockReader::CorruptData(const Block& block, Scan& scan, size_t size,
                                           const std::string& what) {
  const size_t next = scan.consumed + size;
  const size_t behind = block.bytes.size() - next;
  if (options_.on_corrupt == OnCorrupt::kFail) return CorruptRecord(block, scan, what);
  if (behind < kRecordHeaderBytes && !source_ended_) return Need(scan, next + kRecordHeaderBytes);
  const bool next_is_good =
      behind == 0 || (behind >= kRecordHeaderBytes && HeaderIsValid(block.bytes.data() + next));
  if (!next_is_good) {
    DataCrc(block, scan.consumed, size - kEmptyFrame);  // the search covers the same bytes
    return CorruptRecord(block, scan, what);
  }
  CountCorruption(size, Where(block.base_offset + scan.consumed) + what);
  scan.consumed = next;
  return Step::kContinue;
}

// Searches for the next line, or for a frame whose length and data CRCs are both right. The search
// starts inside the corrupt record, so that it finds a whole record after missing bytes.
BlockReader::Step BlockReader::Resync(const Block& block, Scan& scan) {
  const Step step =
      options_.framing == Framing::kTfRecord ? FindFrame(block, scan) : FindLine(block, scan);
  if (step == Step::kNeedBytes) return step;
  resyncing_ = false;
  CountCorruption(block.base_offset + scan.consumed - corruption_offset_, corruption_message_);
  return Step::kContinue;
}

// Moves scan.consumed past the next newline, or to the end.
BlockReader::Step BlockReader::FindLine(const Block& block, Scan& scan) const {
  const char* data = block.bytes.data();
  const size_t size = block.bytes.size();
  const auto* newline =
      static_cast<const char*>(std::memchr(data + scan.consumed, '\n', size - scan.consumed));
  scan.consumed = newline ? static_cast<size_t>(newline - data) + 1 : size;
  if (!newline && !source_ended_) return Need(scan, size + 1);
  return Step::kContinue;
}

// Moves scan.consumed to the next complete and valid frame, or to the end.
BlockReader::Step BlockReader::FindFrame(const Block& block, Scan& scan) {
  const char* data = block.bytes.data();
  const size_t size = block.bytes.size();
  for (size_t& at = scan.consumed; at + kEmptyFrame <= size; ++at) {
    if (!HeaderIsValid(data + at)) continue;
    const uint64_t length = LoadU64(data + at);
    if (length > MaxRecordBytes()) continue;
    const size_t end = at + kEmptyFrame + length;
    if (end > size && !source_ended_) return Need(scan, end);
    if (end > size) continue;
    const uint32_t stored = LoadU32(data + end - kRecordFooterBytes);
    if (stored == MaskCrc(DataCrc(block, at, length))) return Step::kContinue;
  }
  if (!source_ended_) return Need(scan, scan.consumed + kEmptyFrame);
  scan.consumed = size;
  return Step::kContinue;
}

// The CRC of the data of the frame at `frame`. crcs_ makes overlapping ranges cheap.
uint32_t BlockReader::DataCrc(const Block& block, size_t frame, size_t length) {
  const size_t data = frame + kRecordHeaderBytes;
  return crcs_.Crc(block.base_offset + data, block.bytes.data() + data, length);
}

void BlockReader::CountCorruption(uint64_t skipped_bytes, const std::string& what) {
  corruption_.Add(skipped_bytes, what);
  if (options_.on_corruption) options_.on_corruption(what);
}

uint64_t BlockReader::MaxRecordBytes() const {
  return std::min(options_.max_record_bytes, kMaxRecordBytes);
}

}  // namespace millrace::io
