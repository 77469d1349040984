// SPDX-License-Identifier: Apache-2.0
#include "io/stream/row_cache.h"

#include <cstring>
#include <utility>
#include <vector>

namespace millrace::io {
namespace {

enum Kind : uint8_t { kOnes, kValues, kRaw };

struct Header {
  uint32_t keys;
  float weight;
  uint8_t label;
  uint8_t kind;
  uint16_t fields;  // 1: there are some
};
static_assert(sizeof(Header) == 12);

template <typename T>
void AppendArray(const T* data, size_t count, RawBuffer& out) {
  out.Append(reinterpret_cast<const char*>(data), count * sizeof(T));
}

void AppendRow(const BatchBuilder& rows, size_t r, RawBuffer& out) {
  const CsrBatch& batch = rows.batch;
  const uint32_t begin = batch.row_begin[r];
  const uint32_t count = batch.row_begin[r + 1] - begin;
  const float weight = batch.weights.empty() ? 1.0f : batch.weights[r];
  const bool ones = batch.values.empty();
  const bool fields = !batch.fields.empty();
  const Header header{count, weight, batch.labels[r] > 0, ones ? kOnes : kValues, fields};
  AppendArray(&header, 1, out);
  if (rows.wide) {
    AppendArray(rows.wide_keys.data() + begin, count, out);
  } else {
    AppendArray(batch.cols.data() + begin, count, out);
  }
  if (!ones) AppendArray(batch.values.data() + begin, count, out);
  if (!fields) return;
  AppendArray(batch.fields.data() + begin, count, out);
  if (count % 2 == 1) out.Append("\0\0", 2);  // the next header stays aligned
}

void AppendRaw(std::string_view record, uint64_t offset, RawBuffer& out) {
  const Header header{0, 0, 0, kRaw, 0};
  AppendArray(&header, 1, out);
  AppendArray(&offset, 1, out);
  out.Append(record.data(), record.size());
  // The next header stays aligned.
  out.Append("\0\0\0", (4 - record.size() % 4) % 4);
}

class CachedRows final : public RowDecoder {
 public:
  explicit CachedRows(std::unique_ptr<RowDecoder> decoder) : decoder_(std::move(decoder)) {}

  Status Append(std::string_view record, BatchBuilder& rows) override {
    Header header;
    std::memcpy(&header, record.data(), sizeof header);
    const char* keys = record.data() + sizeof header;
    if (header.kind == kRaw) {
      return decoder_->Append(record.substr(sizeof header + sizeof(uint64_t)), rows);
    }
    const size_t bytes = header.keys * (rows.wide ? sizeof(uint64_t) : sizeof(uint32_t));
    void* room =
        rows.wide ? static_cast<void*>(rows.WideRoom(header.keys)) : rows.NarrowRoom(header.keys);
    if (bytes > 0) std::memcpy(room, keys, bytes);
    const char* rest = keys + bytes;
    const float* values = nullptr;
    if (header.kind == kValues) {
      values = reinterpret_cast<const float*>(rest);
      rest += header.keys * sizeof(float);
    }
    const auto* fields = header.fields != 0 ? reinterpret_cast<const uint16_t*>(rest) : nullptr;
    rows.FinishRow(header.keys, header.label, header.weight, values, fields);
    return {};
  }

 private:
  std::unique_ptr<RowDecoder> decoder_;
};

}  // namespace

void CacheRows(RowDecoder& decoder, Framing framing, bool wide, BatchBuilder& rows, Block& block) {
  RawBuffer bytes;
  std::vector<RecordSpan> spans;
  spans.reserve(block.records.size());
  for (size_t i = 0; i < block.records.size(); ++i) {
    const size_t begin = bytes.size();
    rows.Clear(wide);
    if (decoder.Append(block.record(i), rows).ok()) {
      AppendRow(rows, 0, bytes);
    } else {
      AppendRaw(block.record(i), block.offset(i, framing), bytes);
    }
    spans.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes.size() - begin)});
  }
  // Copy to drop the spare capacity: the block may stay for a long time.
  block.bytes = RawBuffer();
  block.bytes.Append(bytes.data(), bytes.size());
  block.records = std::move(spans);
}

uint64_t CachedRecordOffset(std::string_view record) {
  uint64_t offset;
  std::memcpy(&offset, record.data() + sizeof(Header), sizeof offset);
  return offset;
}

std::unique_ptr<RowDecoder> MakeCachedRowDecoder(std::unique_ptr<RowDecoder> decoder) {
  return std::make_unique<CachedRows>(std::move(decoder));
}

namespace {

uint64_t BytesOf(const Block& block) {
  return block.bytes.capacity() + block.records.capacity() * sizeof(RecordSpan) + sizeof block;
}

}  // namespace

bool RowCache::Begin(size_t file) {
  if (max_bytes_ == 0 || entries_[file].state != State::kEmpty) return false;
  entries_[file].state = State::kFilling;
  return true;
}

bool RowCache::Add(size_t file, std::shared_ptr<const Block> block) {
  Entry& entry = entries_[file];
  const uint64_t bytes = BytesOf(*block);
  if (bytes_ + bytes > max_bytes_) {
    Drop(entry);
    entry.state = State::kTooLarge;
    return false;
  }
  bytes_ += bytes;
  entry.blocks.push_back(std::move(block));
  return true;
}

void RowCache::End(size_t file) { entries_[file].state = State::kComplete; }

void RowCache::Abandon(size_t file) {
  Drop(entries_[file]);
  entries_[file].state = State::kEmpty;
}

void RowCache::Drop(Entry& entry) {
  for (const auto& block : entry.blocks) bytes_ -= BytesOf(*block);
  entry.blocks.clear();
}

const RowCache::Blocks* RowCache::Find(size_t file) const {
  return entries_[file].state == State::kComplete ? &entries_[file].blocks : nullptr;
}

}  // namespace millrace::io
