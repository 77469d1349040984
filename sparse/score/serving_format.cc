// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/serving_format.h"

#include <algorithm>

#include "sparse/update_options.h"

namespace millrace::score {
namespace {

constexpr uint64_t kMaxTableBytes = uint64_t{1} << 62;
constexpr uint32_t kMaxBucketKeys = 8, kMinBucketKeys = 4;
constexpr double kMaxLoad = 0.7;

Result<uint32_t> SmallNumber(const io::StateFields& fields, const char* name, uint64_t max) {
  ASSIGN_OR_RETURN(const uint64_t number, fields.Uint(name));
  if (number <= max) return static_cast<uint32_t>(number);
  return Corrupt("field " + std::string(name) + ": expected at most " + std::to_string(max) +
                 ", found " + std::to_string(number));
}

Result<TableShape> TableFrom(const io::StateFields& fields) {
  TableShape table;
  ASSIGN_OR_RETURN(const std::string type, fields.Text("table.weights"));
  const Result<WeightsType> found = WeightsTypeFromName(type);
  if (!found.ok()) return Corrupt("field table." + found.status().message());
  table.type = *found;
  ASSIGN_OR_RETURN(table.num_features, fields.Uint("num_features"));
  ASSIGN_OR_RETURN(const std::string layout, fields.Text("table.layout"));
  if (layout == LayoutName(Layout::kHash)) {
    table.layout = Layout::kHash;
    ASSIGN_OR_RETURN(table.buckets, fields.Uint("table.buckets"));
    ASSIGN_OR_RETURN(table.bucket_keys, SmallNumber(fields, "table.bucket_keys", kMaxBucketKeys));
    ASSIGN_OR_RETURN(table.bucket_bytes, SmallNumber(fields, "table.bucket_bytes", 1u << 30));
  } else if (layout != LayoutName(Layout::kDense)) {
    return Corrupt("field table.layout: expected dense or hash, found '" + layout + "'");
  }
  return table;
}

}  // namespace

Status TableShape::Validate() const {
  if (numbers == 0 || numbers > (1u << 20)) {
    return Corrupt("table: expected 1 to 1048576 numbers a feature, found " +
                   std::to_string(numbers));
  }
  if (layout == Layout::kDense) {
    if (num_features > 0 && num_features <= kMaxTableBytes / entry_bytes()) return {};
    return Corrupt("table: num_features = " + std::to_string(num_features) +
                   " cannot be that of a dense table");
  }
  const bool fits = bucket_keys > 0 && bucket_bytes > 0 && bucket_bytes % kCacheLine == 0 &&
                    bucket_keys * (sizeof(uint64_t) + entry_bytes()) <= bucket_bytes;
  if (fits && buckets > 0 && buckets <= kMaxTableBytes / bucket_bytes) return {};
  return Corrupt("table: " + std::to_string(buckets) + " buckets of " +
                 std::to_string(bucket_bytes) + " bytes and " + std::to_string(bucket_keys) +
                 " keys cannot be those of a hash table");
}

TableShape DenseShape(uint64_t num_features, uint32_t numbers, WeightsType type) {
  return {.type = type, .numbers = numbers, .num_features = num_features};
}

TableShape HashShape(uint64_t keys, uint32_t numbers, WeightsType type) {
  TableShape best = {.layout = Layout::kHash, .type = type, .numbers = numbers};
  const size_t slot_bytes = sizeof(uint64_t) + best.entry_bytes();
  for (uint32_t count = kMinBucketKeys; count <= kMaxBucketKeys; ++count) {
    const auto bytes =
        static_cast<uint32_t>((count * slot_bytes + kCacheLine - 1) / kCacheLine * kCacheLine);
    // bytes / count < best.bucket_bytes / best.bucket_keys
    if (best.bucket_keys > 0 && bytes * best.bucket_keys >= best.bucket_bytes * count) continue;
    best.bucket_keys = count;
    best.bucket_bytes = bytes;
  }
  best.buckets =
      static_cast<uint64_t>(static_cast<double>(keys) / (kMaxLoad * best.bucket_keys)) + 1;
  return best;
}

void AddTable(const TableShape& table, float intercept, uint64_t weights, io::StateFields& fields) {
  fields.Add("table.layout", LayoutName(table.layout));
  fields.Add("table.weights", WeightsTypeName(table.type));
  if (table.layout == Layout::kHash) {
    fields.AddUint("table.buckets", table.buckets);
    fields.AddUint("table.bucket_keys", table.bucket_keys);
    fields.AddUint("table.bucket_bytes", table.bucket_bytes);
  }
  fields.AddDouble("intercept", static_cast<double>(intercept));
  fields.AddUint("weights", weights);
}

Result<ServingInfo> ServingInfoFrom(const io::StateFields& fields) {
  ServingInfo info;
  ASSIGN_OR_RETURN(info.table, TableFrom(fields));
  info.num_features = info.table.num_features;
  ASSIGN_OR_RETURN(info.factors, sparse::FactorShapeFrom(fields));
  if (info.factors.kind == sparse::ModelKind::kFfm && fields.Text("option.centers").ok()) {
    return Invalid("expected an ffm without centers, found some");
  }
  info.table.numbers = static_cast<uint32_t>(1 + info.factors.width());
  RETURN_IF_ERROR(info.table.Validate());
  ASSIGN_OR_RETURN(const double intercept, fields.Double("intercept"));
  info.intercept = static_cast<float>(intercept);
  ASSIGN_OR_RETURN(info.weights, fields.Uint("weights"));
  ASSIGN_OR_RETURN(info.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(info.examples, fields.Uint("examples"));
  for (const auto& [name, value] : fields.all()) {
    if (name == "option.centers") {
      ASSIGN_OR_RETURN(info.centers, sparse::CentersFrom(value));
    }
    if (!info.centers.empty()) {
      const uint64_t last = info.centers.back().key, end = info.num_features;
      if (end > 0 ? last >= end : last == io::kInterceptKey) {
        return Corrupt("field option.centers: expected keys of the model, found " +
                       std::to_string(last));
      }
    }
    if (name == "input.format") info.input_format = value;
    if (name == "input.features") info.feature_spec = value;
  }
  return info;
}

}  // namespace millrace::score
