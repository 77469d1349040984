// SPDX-License-Identifier: Apache-2.0
// Decodes sparse examples (label, index list, value list) from tf.Example records directly into a
// batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/base/cpu.h"
#include "io/base/status.h"
#include "io/batch/batch_builder.h"
#include "io/batch/csr_batch.h"
#include "io/example/example_encoder.h"
#include "io/example/feature_view.h"
#include "io/example/varint_list.h"

namespace millrace::io {

struct ExampleDecoderOptions {
  FeatureNames names = {};
  // Indices must be below this; 0: any 64-bit key but kInterceptKey (hashed-key table).
  uint64_t num_features = 0;
  UnknownKey unknown_key = UnknownKey::kError;
  Labels labels = Labels::kRequired;
  // Above 0: rows get fields, which are below it.
  size_t num_fields = 0;
  // If set, this label becomes 1 and every other one 0.
  std::optional<float> positive_label = {};
};

// The end of an error message about a key that is not below num_features.
std::string TooFewFeatures(uint64_t key);
// The beginning of one about a field that is not below num_fields; the number found follows.
std::string FieldRange(size_t num_fields);
// An error message about a row that has kInterceptKey.
extern const char kReservedKeyText[];

// Records in the canonical layout of TensorFlow's writers (single-byte tags, key before value, one
// packed list per feature) take a fast path. Everything else that protobuf accepts (unpacked lists,
// unknown fields, repeated map keys, ...) and every invalid record goes through the general
// decoder, which also produces the error messages.
//
// Rules beyond protobuf's: label is one number, 0, 1 or -1 (int64 or float) unless there is a
// positive_label, or absent where labels are optional; index is an int64 list; value is absent, or
// a list of finite floats as long as index; weight, if names.weight is set, is absent (1) or one
// finite float that is not negative. Fields, if they are asked for, are an int64 list as long as
// index; without it, a row of exactly num_fields indices has one per field, in the order of the
// fields.
//
// Not thread-safe (scratch memory): use one decoder per thread.
class ExampleDecoder {
 public:
  explicit ExampleDecoder(ExampleDecoderOptions options, CpuLevel level = DetectCpuLevel());
  ExampleDecoder(const ExampleDecoder&) = delete;
  ExampleDecoder& operator=(const ExampleDecoder&) = delete;

  // Appends the example as one row, or returns an error (offsets count from the record's first
  // byte) and leaves the rows unchanged. Reads up to kVarintReadSlack bytes past the record: they
  // must be readable.
  Status Append(std::string_view record, BatchBuilder& rows);

  // Whether keys need 64 bits in the batch.
  bool wide() const {
    return options_.num_features == 0 || options_.num_features > (uint64_t{1} << 32);
  }

 private:
  // A feature name, prepared for comparing eight bytes at once.
  struct Name {
    explicit Name(std::string_view name);
    bool Is(const char* key, size_t size) const;
    std::string_view text;
    uint64_t head = 0;
    uint64_t head_mask = 0;
  };
  struct Parts;  // the positions of a record's features

  bool AppendFast(std::string_view record, BatchBuilder& rows);
  bool FastLabel(const Parts& parts, float& label) const;
  bool FindParts(std::string_view record, Parts& parts) const;
  bool TakeFeature(std::string_view key, std::string_view feature, Parts& parts) const;
  bool DecodeIndex(std::string_view list, BatchBuilder& rows, size_t& count);
  bool DecodeFields(std::string_view list, size_t count);

  Status AppendGeneral(std::string_view record, BatchBuilder& rows);
  Status CheckIndex(const FeatureView* index) const;
  Status TakeFields(size_t count);

  ExampleDecoderOptions options_;
  Name label_, index_, value_, weight_, field_;
  Varints32Function varints32_;
  ExampleView view_;
  PodVector<uint64_t> keys_;
  PodVector<float> values_;
  PodVector<uint32_t> varints_;
  PodVector<uint16_t> fields_;      // of the row
  PodVector<uint16_t> all_fields_;  // 0, 1, ...: of a row with one index per field
};

}  // namespace millrace::io
