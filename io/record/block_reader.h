// SPDX-License-Identifier: Apache-2.0
// Reads one file as a sequence of blocks of whole records. A block has some hundred kilobytes, so
// that its consumer is called once per thousand records. Block boundaries depend only on the file's
// content and on block_bytes, except with `streaming`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/record/range_crcs.h"

namespace millrace::io {

enum class Framing {
  kTfRecord,
  kLines,  // a record is a line without its \n or \r\n; the last line may lack the \n
  kCsv,    // the same, but a newline inside quotes belongs to the record (RFC 4180); a byte order
           // mark at the begin of the file is left out
  kTable,  // a row of a table, see io/table/table_reader.h; BlockReader does not read it
};

struct TableOptions;  // io/table/table_reader.h

enum class OnCorrupt { kFail, kSkip };
// Accepts "fail", "skip".
Result<OnCorrupt> OnCorruptFromName(std::string_view name);

struct BlockOptions {
  Framing framing = Framing::kTfRecord;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  size_t block_bytes = 256 << 10;
  // A longer record or line counts as corrupt. It bounds the memory of a reader, whatever a header
  // claims and however well the file is compressed. At most kMaxRecordBytes.
  uint64_t max_record_bytes = 32 << 20;
  bool regular_file = false;  // see OpenSource
  char csv_delimiter = ',';
  // If not empty: the first record of the file, which is not delivered. A file that begins with
  // another one is an error even if corrupt records are skipped. An empty file needs none.
  std::string csv_header = {};
  std::shared_ptr<const TableOptions> table = nullptr;  // for Framing::kTable
  // Records of a pipe are delivered as they arrive: a block does not wait for block_bytes. Its
  // boundaries then depend on timing. Compressed data waits nevertheless.
  bool streaming = false;
  // If set: called with the message of each corruption that is skipped.
  std::function<void(const std::string&)> on_corruption = nullptr;
  // If set: called with the first bytes of a TFRecord file whose first record is corrupt. What it
  // returns is appended to the error message: see DescribeContent in io/text/file_format.h.
  std::string (*describe_content)(std::string_view first_bytes) = nullptr;
};

// What was skipped so far.
struct CorruptionStats {
  uint64_t events = 0;  // corruptions: each cost at least one record
  uint64_t bytes = 0;   // of decompressed data that were skipped
  std::string first;    // the message of the first one

  void Add(uint64_t skipped_bytes, const std::string& message);
  void Merge(const CorruptionStats& other);
};

struct RecordSpan {
  uint32_t begin = 0;  // in Block::bytes
  uint32_t size = 0;
};

struct Block {
  RawBuffer bytes;
  std::vector<RecordSpan> records;
  uint64_t base_offset = 0;  // of bytes[0] in the decompressed data
  uint64_t digest = 0;       // of the content: of the records' CRCs, or of the lines

  std::string_view record(size_t i) const {
    return {bytes.data() + records[i].begin, records[i].size};
  }
  // Where the record's frame begins in the decompressed data; the number of a table's row.
  uint64_t offset(size_t i, Framing framing) const;
};

// A sequence of blocks. Not thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // Replaces the content of `block`; its memory is reused. False at the end. A block has at least
  // one record. An error comes after all good records before it have been delivered.
  virtual Result<bool> Next(Block& block) = 0;
  virtual const CorruptionStats& corruption() const = 0;
  virtual Compression compression() const = 0;
};

// The blocks of a file. Not thread-safe.
class BlockReader final : public BlockSource {
 public:
  static Result<std::unique_ptr<BlockReader>> Open(const std::string& path,
                                                   const BlockOptions& options);
  // Reads `source`; messages call it `name`.
  BlockReader(std::string name, OpenedSource source, const BlockOptions& options);

  Result<bool> Next(Block& block) override;
  const CorruptionStats& corruption() const override { return corruption_; }

  const std::string& path() const { return path_; }
  Compression compression() const override { return source_.compression; }
  int64_t file_bytes() const { return source_.file_bytes; }

 private:
  // How far a scan over Block::bytes has come.
  struct Scan {
    size_t consumed = 0;    // bytes before it need no further scan
    size_t want = 0;        // the block size that the scan needs to continue
    size_t no_quotes = 0;   // there are no quotes from `consumed` to here
    size_t no_newline = 0;  // the same for newlines
  };
  enum class Step { kContinue, kNeedBytes, kStop };

  void Fill(RawBuffer& bytes, size_t target);
  void ScanRecords(Block& block, Scan& scan);
  Step ScanTfRecord(Block& block, Scan& scan);
  Step ScanLine(Block& block, Scan& scan);
  Step ScanCsv(Block& block, Scan& scan);
  static const char* FindNewline(const Block& block, Scan& scan);
  bool LineHasOddQuotes(const Block& block, Scan& scan, size_t end) const;
  Step BrokenQuotes(const Block& block, Scan& scan, const std::string& what, size_t end);
  Step TooLong(const Block& block, Scan& scan, size_t found, bool has_end);
  Step AddLine(Block& block, Scan& scan, size_t size, bool has_newline);
  bool IsTfRecordFile(const Block& block, const Scan& scan) const;
  Status WrongHeader(std::string_view found) const;
  Step TruncatedRecord(const Block& block, Scan& scan, const std::string& what);
  Step CorruptRecord(const Block& block, Scan& scan, const std::string& what);
  Step HandleCorruption(uint64_t offset, Scan& scan, const std::string& message);
  Step CorruptData(const Block& block, Scan& scan, size_t size, const std::string& what);
  Step Resync(const Block& block, Scan& scan);
  Step FindLine(const Block& block, Scan& scan) const;
  Step FindFrame(const Block& block, Scan& scan);
  Step Need(Scan& scan, size_t size) const;
  void DropConsumed(Block& block, Scan& scan);
  uint64_t Digest(const Block& block, const Scan& scan) const;
  bool IsDone(const Block& block, const Scan& scan) const;
  bool NearCorruption(const Block& block, const Scan& scan) const;
  uint32_t DataCrc(const Block& block, size_t frame, size_t length);
  void CountCorruption(uint64_t skipped_bytes, const std::string& what);
  uint64_t MaxRecordBytes() const;
  std::string Where(uint64_t offset) const;
  Status EndStatus();

  std::string path_;
  OpenedSource source_;
  BlockOptions options_;
  CorruptionStats corruption_;
  RawBuffer carry_;            // bytes read beyond the last whole record
  uint64_t carry_offset_ = 0;  // of carry_[0] in the decompressed data
  bool source_ended_ = false;
  Status source_error_;  // why the source ended early, if it did
  Status error_;         // returned after the records before it
  // While searching for the next whole record after a corruption:
  bool resyncing_ = false;
  uint64_t corruption_offset_ = 0;
  std::string corruption_message_;
  // CSV:
  bool is_header_next_ = false;
  uint64_t lines_until_ = 0;  // before this offset no record has several lines
  RangeCrcs crcs_;            // of the data that corrupt frames claimed
};

}  // namespace millrace::io
