// SPDX-License-Identifier: Apache-2.0
#include "io/queue/batch_group.h"

#include <algorithm>
#include <utility>

#include "io/stream/row_cache.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

// Records are prefetched this many records before they are decoded: their addresses are random.
constexpr size_t kPrefetchRecords = 4;
constexpr size_t kCacheLine = 64;
// The keys of a batch, as a multiple of max_record_bytes: a key takes at least one byte.
constexpr uint64_t kBatchRecords = 4;

void Prefetch(const RecordRef& ref) {
  const size_t size = std::min<size_t>(ref.size, 8 * kCacheLine);
  for (size_t at = 0; at < size; at += kCacheLine) __builtin_prefetch(ref.data + at);
}

}  // namespace

BatchGroupDecoder::BatchGroupDecoder(const InputOptions& options)
    : wide_keys_(NeedsWideKeys(options.rows.num_features)),
      framing_(FramingOf(options.format)),
      max_batch_keys_(std::min<uint64_t>(kBatchRecords * options.max_record_bytes, INT32_MAX)),
      decoder_(MakeRowDecoder(options.format, options.rows)),
      compactor_(options.compact ? std::make_unique<KeyCompactor>(options.rows.num_features)
                                 : nullptr) {
  if (options.cache_bytes == 0) return;
  file_decoder_ = MakeRowDecoder(options.format, options.rows);
  decoder_ = MakeCachedRowDecoder(std::move(decoder_));
}

void BatchGroupDecoder::ToCachedRows(Block& block) {
  TRACE_SCOPE("cache_rows", profiler::Cat::kInput,
              {.rows = static_cast<int64_t>(block.records.size())});
  CacheRows(*file_decoder_, framing_, wide_keys_, scratch_, block);
}

void BatchGroupDecoder::Decode(BatchGroup& group) {
  for (size_t b = 0; b < group.count; ++b) {
    DecodeRows(group, group.batches[b]);
    if (compactor_) Compact(group.batches[b].rows);
  }
}

void BatchGroupDecoder::DecodeRows(BatchGroup& group, BatchGroup::Batch& batch) {
  profiler::TraceScope span("decode", profiler::Cat::kInput,
                            {.rows = static_cast<int64_t>(batch.end - batch.begin)});
  BatchBuilder& rows = batch.rows;
  rows.Clear(wide_keys_);
  for (size_t i = batch.begin; i < batch.end; ++i) {
    if (i + kPrefetchRecords < group.refs.size()) Prefetch(group.refs[i + kPrefetchRecords]);
    const RecordRef& ref = group.refs[i];
    // A key takes at least one byte of the record.
    Status status = rows.nnz() + uint64_t{ref.size} > max_batch_keys_
                        ? TooManyKeys()
                        : decoder_->Append({ref.data, ref.size}, rows);
    if (!status.ok()) group.bad_rows.push_back({i, std::move(status)});
  }
  rows.Trim();
  span.args().nnz = static_cast<int64_t>(rows.nnz());
}

Status BatchGroupDecoder::TooManyKeys() const {
  return Invalid("a batch has room for " + std::to_string(max_batch_keys_) +
                 " keys: use a smaller batch_size, or raise max_record_bytes");
}

void BatchGroupDecoder::Compact(BatchBuilder& rows) {
  CsrBatch& csr = rows.batch;
  profiler::TraceScope span(
      "compact", profiler::Cat::kInput,
      {.rows = static_cast<int64_t>(csr.rows()), .nnz = static_cast<int64_t>(rows.nnz())});
  csr.compacted = true;
  if (wide_keys_) {
    compactor_->Compact(rows.wide_keys, csr.cols, csr.keys);
  } else {
    compactor_->Compact(csr.cols, csr.keys);
  }
  span.args().keys = static_cast<int64_t>(csr.keys.size());
}

}  // namespace millrace::io
