// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/serving_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "io/base/crc32c.h"

namespace millrace::score {
namespace {

template <typename T>
void AppendNumber(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

Result<ServingWriter> ServingWriter::Create(const std::string& path, const TableShape& table,
                                            const io::StateFields& fields) {
  CHECK(table.Validate().ok());
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
  ServingWriter writer(std::move(file), table, fields);
  writer.block_.reserve(kServingBlockBytes);
  writer.entry_.resize(table.entry_bytes());
  if (table.layout == Layout::kHash) {
    try {
      writer.buckets_.resize(table.table_bytes());
    } catch (const std::exception&) {
      return Invalid("not enough memory for a hash table of " +
                     std::to_string(table.table_bytes() >> 20) + " MB");
    }
    const uint64_t free = kFreeKey;
    for (uint64_t b = 0; b < table.buckets; ++b) {
      for (uint32_t i = 0; i < table.bucket_keys; ++i) {
        std::memcpy(&writer.buckets_[b * table.bucket_bytes + i * sizeof free], &free, sizeof free);
      }
    }
  }
  std::string head(kServingMagic);
  head.resize(kServingHeadBytes);
  RETURN_IF_ERROR(writer.Append(head.data(), head.size()));
  return writer;
}

Status ServingWriter::Encode(uint64_t key, std::span<const float> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float number = numbers[i];
    const auto wrong = [&](const std::string& expected) {
      return Invalid("weight of key " + io::KeyName(key) + ": expected " + expected + ", found " +
                     io::NumberText(number));
    };
    if (!std::isfinite(number)) return wrong("a finite number");
    if (table_.type == WeightsType::kF32) {
      std::memcpy(&entry_[i * sizeof number], &number, sizeof number);
      continue;
    }
    if (table_.type == WeightsType::kF16 && std::abs(number) > kMaxF16) {
      return wrong("at most 65504 in an f16 (bf16 has the range of f32)");
    }
    const uint16_t half = table_.type == WeightsType::kF16 ? ToF16(number) : ToBf16(number);
    std::memcpy(&entry_[i * sizeof half], &half, sizeof half);
  }
  return {};
}

Status ServingWriter::Add(uint64_t key, std::span<const float> numbers) {
  if (key == io::kInterceptKey) {
    intercept_ = numbers[0];
    return {};
  }
  CHECK(numbers.size() == table_.numbers);
  RETURN_IF_ERROR(Encode(key, numbers));
  weights_ += numbers[0] != 0;
  if (table_.layout == Layout::kHash) return AddToHash(key);
  CHECK(key < table_.num_features && key * entry_.size() >= table_bytes_);
  RETURN_IF_ERROR(FillTo(key * entry_.size()));
  table_bytes_ += entry_.size();
  return Append(entry_.data(), entry_.size());
}

Status ServingWriter::AddToHash(uint64_t key) {
  if (++keys_ > table_.buckets * table_.bucket_keys) {
    return Invalid("hash table: expected at most " +
                   std::to_string(table_.buckets * table_.bucket_keys) + " keys");
  }
  uint64_t number = table_.BucketOf(key);
  for (;; number = number + 1 == table_.buckets ? 0 : number + 1) {
    char* const bucket = &buckets_[number * table_.bucket_bytes];
    for (uint32_t i = 0; i < table_.bucket_keys; ++i) {
      uint64_t there;
      std::memcpy(&there, bucket + i * sizeof there, sizeof there);
      if (there != kFreeKey) continue;
      std::memcpy(bucket + i * sizeof key, &key, sizeof key);
      std::memcpy(bucket + table_.bucket_keys * sizeof key + i * entry_.size(), entry_.data(),
                  entry_.size());
      return {};
    }
  }
}

Status ServingWriter::FillTo(uint64_t bytes) {
  static constexpr char kZeros[4096] = {};
  while (table_bytes_ < bytes) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(bytes - table_bytes_, sizeof kZeros));
    RETURN_IF_ERROR(Append(kZeros, size));
    table_bytes_ += size;
  }
  return {};
}

Status ServingWriter::Append(const char* bytes, size_t size) {
  while (size > 0) {
    const size_t part = std::min(size, kServingBlockBytes - block_.size());
    block_.insert(block_.end(), bytes, bytes + part);
    bytes += part;
    size -= part;
    if (block_.size() == kServingBlockBytes) RETURN_IF_ERROR(WriteBlock());
  }
  return {};
}

Status ServingWriter::WriteBlock() {
  crcs_.push_back(MaskedCrc32c(block_.data(), block_.size()));
  written_ += block_.size();
  const Status status = file_.Write({block_.data(), block_.size()});
  block_.clear();
  return status;
}

Status ServingWriter::Finish() {
  if (table_.layout == Layout::kDense) {
    RETURN_IF_ERROR(FillTo(table_.table_bytes()));
  } else {
    RETURN_IF_ERROR(Append(buckets_.data(), buckets_.size()));
  }
  if (!block_.empty()) RETURN_IF_ERROR(WriteBlock());
  AddTable(table_, intercept_, weights_, fields_);
  std::string end = fields_.Encode();
  const auto field_bytes = static_cast<uint32_t>(end.size());
  for (const uint32_t crc : crcs_) AppendNumber(crc, end);
  AppendNumber(uint64_t{table_.table_bytes()}, end);
  AppendNumber(static_cast<uint32_t>(kServingBlockBytes), end);
  AppendNumber(field_bytes, end);
  AppendNumber(kServingVersion, end);
  AppendNumber(MaskedCrc32c(end.data(), end.size()), end);
  end += kServingMagic;
  written_ += end.size();
  RETURN_IF_ERROR(file_.Write(end));
  return file_.Commit();
}

}  // namespace millrace::score
