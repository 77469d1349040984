// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/serving_model.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "io/base/crc32c.h"
#include "io/base/regular_file.h"
#include "io/base/string_hash.h"
#include "io/features/feature_spec.h"

namespace millrace::score {
namespace {

template <typename T>
T NumberAt(const char* at) {
  T number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path, bool preload) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_RDONLY));
  struct stat status = {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    return IoError(path + ": cannot read its size", error);
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) {
    ::close(fd);
    return Corrupt(path + ": expected a serving model, found an empty file");
  }
  void* const map =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED | (preload ? MAP_POPULATE : 0), fd, 0);
  const int error = errno;
  ::close(fd);
  if (map == MAP_FAILED) return IoError(path + ": cannot map it into memory", error);
  return MappedFile(static_cast<const char*>(map), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char*>(data_), size_);
}

Status ServingModel::CorruptAt(uint64_t offset, const std::string& what) const {
  return Corrupt(path_ + ": offset " + std::to_string(offset) + ": " + what);
}

Result<std::unique_ptr<const ServingModel>> ServingModel::Open(const std::string& path,
                                                               const OpenOptions& options) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path, options.preload && !options.copy));
  auto model = std::make_unique<ServingModel>(path, std::move(file));
  RETURN_IF_ERROR(model->ReadEnd(options.verify));
  RETURN_IF_ERROR(model->ReadFeatures());
  const TableShape& shape = model->info_.table;
  const char* table = model->file_.data() + kServingHeadBytes;
  if (options.copy) {
    model->copy_ = HugeArray<char>(shape.table_bytes());
    std::memcpy(model->copy_.data(), table, shape.table_bytes());
    table = model->copy_.data();
  }
  model->table_ = Table(shape, table);
  return std::unique_ptr<const ServingModel>(std::move(model));
}

Status ServingModel::ReadEnd(bool verify) {
  const char* const bytes = file_.data();
  const uint64_t size = file_.size();
  const auto has_magic = [&](uint64_t at) {
    return std::string_view(bytes + at, kServingMagic.size()) == kServingMagic;
  };
  if (size < kServingMagic.size() || !has_magic(0)) {
    return CorruptAt(0,
                     "expected a serving model (" + std::string(kServingMagic) +
                         "), found something else: millrace-predict export makes one of a model");
  }
  if (size < kServingHeadBytes + kServingTailBytes || !has_magic(size - kServingMagic.size())) {
    return CorruptAt(size, "expected the end of a serving model, found a file that was cut");
  }
  const uint64_t tail = size - kServingTailBytes;
  const auto table_bytes = NumberAt<uint64_t>(bytes + tail);
  const auto block_bytes = NumberAt<uint32_t>(bytes + tail + 8);
  const auto field_bytes = NumberAt<uint32_t>(bytes + tail + 12);
  const auto version = NumberAt<uint32_t>(bytes + tail + 16);
  const auto crc = NumberAt<uint32_t>(bytes + tail + 20);
  if (version != kServingVersion) {
    return CorruptAt(tail + 16, "expected version " + std::to_string(kServingVersion) + ", found " +
                                    std::to_string(version) + ": export the model again");
  }
  if (table_bytes > size || block_bytes != kServingBlockBytes) {
    return CorruptAt(tail, "expected the sizes of table and blocks, found " +
                               std::to_string(table_bytes) + " and " + std::to_string(block_bytes));
  }
  const uint64_t blocks = (kServingHeadBytes + table_bytes + block_bytes - 1) / block_bytes;
  const uint64_t end = kServingHeadBytes + table_bytes;
  if (end + field_bytes + blocks * sizeof(uint32_t) != tail) {
    return CorruptAt(tail, "expected a file of " +
                               std::to_string(end + field_bytes + blocks * sizeof(uint32_t) +
                                              kServingTailBytes) +
                               " bytes, found " + std::to_string(size));
  }
  const uint32_t found = MaskedCrc32c(bytes + end, tail + 20 - end);
  if (crc != found) {
    return CorruptAt(end, "CRC of the description: expected " + std::to_string(crc) + ", found " +
                              std::to_string(found));
  }
  digest_ = io::HashString({bytes + end, static_cast<size_t>(size - end)});
  const Result<io::StateFields> fields = io::StateFields::Decode({bytes + end, field_bytes});
  if (!fields.ok()) return CorruptAt(end, fields.status().message());
  Result<ServingInfo> info = ServingInfoFrom(*fields);
  if (!info.ok()) return CorruptAt(end, info.status().message());
  info_ = std::move(*info);
  if (info_.table.table_bytes() != table_bytes) {
    return CorruptAt(tail, "expected a table of " + std::to_string(info_.table.table_bytes()) +
                               " bytes, found " + std::to_string(table_bytes));
  }
  return verify ? VerifyBlocks(bytes + end + field_bytes, end) : Status();
}

Status ServingModel::ReadFeatures() {
  if (info_.feature_spec.empty()) return {};
  const uint64_t at = kServingHeadBytes + info_.table.table_bytes();
  const Result<io::FeatureSpec> spec =
      io::ParseFeatureSpec(info_.feature_spec, "field input.features");
  if (!spec.ok()) return CorruptAt(at, spec.status().message());
  if (!spec->IsFitted()) return CorruptAt(at, "field input.features: expected a fitted spec");
  if (spec->num_features() != info_.num_features) {
    return CorruptAt(
        at, "expected a feature spec of num_features = " + std::to_string(info_.num_features) +
                ", found one of " + std::to_string(spec->num_features()));
  }
  if (num_fields() > 0 && num_fields() != spec->fields.size()) {
    return CorruptAt(at, "expected a feature spec of " + std::to_string(num_fields()) +
                             " fields, found " + std::to_string(spec->fields.size()));
  }
  Result<std::shared_ptr<const io::EncoderPlan>> plan = io::EncoderPlan::Make(*spec);
  if (!plan.ok()) return CorruptAt(at, plan.status().message());
  features_ = std::move(*plan);
  const std::vector<std::string>& columns = features_->columns();
  for (size_t i = 0; i < columns.size(); ++i) columns_[columns[i]] = static_cast<uint32_t>(i);
  is_feature_.assign(columns.size(), 0);
  for (const io::FieldSpec& field : spec->fields) {
    if (field.rule != io::FieldRule::kCross) is_feature_[*ColumnOf(field.column)] = 1;
  }
  return {};
}

Status ServingModel::VerifyBlocks(const char* crcs, uint64_t bytes) const {
  for (uint64_t at = 0; at < bytes; at += kServingBlockBytes, crcs += sizeof(uint32_t)) {
    const size_t size = std::min<uint64_t>(kServingBlockBytes, bytes - at);
    const auto expected = NumberAt<uint32_t>(crcs);
    const uint32_t found = MaskedCrc32c(file_.data() + at, size);
    if (found == expected) continue;
    return CorruptAt(at, "CRC of " + std::to_string(size) + " bytes: expected " +
                             std::to_string(expected) + ", found " + std::to_string(found));
  }
  return {};
}

}  // namespace millrace::score
