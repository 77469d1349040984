// SPDX-License-Identifier: Apache-2.0
// A serving model that is mapped into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/huge_array.h"
#include "io/base/status.h"
#include "io/features/feature_encoder.h"
#include "sparse/score/serving_format.h"

namespace millrace::score {

// A file that is mapped for reading.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path, bool preload);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}

  const char* data_ = nullptr;
  size_t size_ = 0;
};

// The entries of a table in memory. Lookups never read outside the table, whatever its bytes are.
class Table {
 public:
  Table() = default;
  Table(const TableShape& shape, const char* bytes)
      : shape_(shape),
        bytes_(bytes),
        last_byte_((shape.layout == Layout::kDense ? shape.entry_bytes() : shape.bucket_bytes) -
                   1) {}

  const TableShape& shape() const { return shape_; }
  const char* bytes() const { return bytes_; }

  void Prefetch(uint64_t key) const {
    const char* const at = FirstOf(key);
    for (size_t offset = 0; offset < last_byte_; offset += kCacheLine) {
      __builtin_prefetch(at + offset);
    }
    __builtin_prefetch(at + last_byte_);
  }
  // The entry of a key; null if it has none. A key of a dense table is below num_features.
  const char* Find(uint64_t key) const {
    return shape_.layout == Layout::kDense ? bytes_ + key * shape_.entry_bytes() : FindInHash(key);
  }

 private:
  const char* FirstOf(uint64_t key) const {
    return shape_.layout == Layout::kDense ? bytes_ + key * shape_.entry_bytes()
                                           : bytes_ + shape_.BucketOf(key) * shape_.bucket_bytes;
  }
  const char* FindInHash(uint64_t key) const {
    const char* bucket = FirstOf(key);
    const char* const end = bytes_ + shape_.buckets * shape_.bucket_bytes;
    // A sound table has a free place: the bound is for a damaged one.
    for (uint64_t left = shape_.buckets; left > 0; --left) {
      for (uint32_t i = 0; i < shape_.bucket_keys; ++i) {
        uint64_t there;
        std::memcpy(&there, bucket + i * sizeof there, sizeof there);
        if (there == key)
          return bucket + shape_.bucket_keys * sizeof there + i * shape_.entry_bytes();
        if (there == kFreeKey) return nullptr;
      }
      bucket += shape_.bucket_bytes;
      if (bucket == end) bucket = bytes_;
    }
    return nullptr;
  }

  TableShape shape_;
  const char* bytes_ = nullptr;
  size_t last_byte_ = 0;  // of an entry or bucket
};

struct OpenOptions {
  bool preload = false;  // maps all pages
  bool verify = false;   // checks the CRCs of all blocks
  bool copy = false;     // to memory of this process
};

// Const calls are thread-safe.
class ServingModel {
 public:
  // Errors name the file, and offset, expected and found where there are some.
  static Result<std::unique_ptr<const ServingModel>> Open(const std::string& path,
                                                          const OpenOptions& options);
  ServingModel(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string& path() const { return path_; }
  const ServingInfo& info() const { return info_; }
  const Table& table() const { return table_; }
  // Null without a feature spec.
  const std::shared_ptr<const io::EncoderPlan>& features() const { return features_; }
  // The number of a column of the spec; none for others.
  std::optional<uint32_t> ColumnOf(std::string_view name) const {
    const auto found = columns_.find(name);
    if (found == columns_.end()) return std::nullopt;
    return found->second;
  }
  // Whether a field uses this column. Label and weight are columns as well.
  bool IsFeature(size_t column) const { return is_feature_[column] != 0; }
  // Of an ffm; 0 for other kinds.
  uint32_t num_fields() const {
    return info_.factors.kind == sparse::ModelKind::kFfm ? info_.factors.fields : 0;
  }
  uint64_t digest() const { return digest_; }
  uint64_t file_bytes() const { return file_.size(); }

 private:
  Status ReadEnd(bool verify);
  Status ReadFeatures();
  Status VerifyBlocks(const char* crcs, uint64_t bytes) const;
  Status CorruptAt(uint64_t offset, const std::string& what) const;

  std::string path_;
  MappedFile file_;
  ServingInfo info_;
  std::shared_ptr<const io::EncoderPlan> features_;
  std::map<std::string, uint32_t, std::less<>> columns_;
  std::vector<uint8_t> is_feature_;  // by column
  uint64_t digest_ = 0;
  HugeArray<char> copy_;
  Table table_;
};

}  // namespace millrace::score
