// Decodes sparse examples (label, index list, value list) from tf.Example records straight into a
// batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/cpu.h"
#include "io/base/status.h"
#include "io/batch/labels.h"
#include "io/batch/row_sink.h"
#include "io/example/example_encoder.h"
#include "io/example/feature_view.h"
#include "io/example/varint_list.h"

namespace millrace::io {

struct ExampleDecoderOptions {
  FeatureNames names = {};
  // Indices must be below this; 0: any 64-bit key (an open model).
  uint64_t num_features = 0;
  Labels labels = Labels::kRequired;
};

// For the end of a message about a key that is not below num_features.
std::string TooFewFeatures(uint64_t key);

// A record as TensorFlow's writers make it takes a fast path over its canonical layout: single-byte
// tags, key before value, one packed list a feature. Everything else that protobuf would accept
// (unpacked lists, unknown fields, repeated map keys, ...) and everything that is wrong goes
// through the general decoder, which also words the errors.
//
// Rules beyond protobuf's: label is one number, 0, 1 or -1 (int64 or float), or absent where
// labels are optional; index is an int64
// list; value is absent, or a float list as long as index and finite; weight, where it has a name,
// is absent (1) or one finite float that is not negative.
//
// Not thread-safe (scratch memory); one decoder a thread.
class ExampleDecoder {
 public:
  explicit ExampleDecoder(ExampleDecoderOptions options, CpuLevel level = DetectCpuLevel());
  ExampleDecoder(const ExampleDecoder&) = delete;
  ExampleDecoder& operator=(const ExampleDecoder&) = delete;

  // Appends the example as one row, or returns what is wrong with it (offsets count from the
  // record's first byte) and leaves the rows as they were. Up to kVarintReadSlack bytes behind the
  // record are read: they must be there.
  Status Append(std::string_view record, RowSink& rows);

  // Whether keys need 64 bits in the sink.
  bool wide() const {
    return options_.num_features == 0 || options_.num_features > (uint64_t{1} << 32);
  }

 private:
  // A feature name, ready for comparing eight bytes at once.
  struct Name {
    explicit Name(std::string_view name);
    bool Is(const char* key, size_t size) const;
    std::string_view text;
    uint64_t head = 0;
    uint64_t head_mask = 0;
  };
  struct Parts;  // where a record's features lie

  bool AppendFast(std::string_view record, RowSink& rows);
  bool FindParts(std::string_view record, Parts& parts) const;
  bool TakeFeature(std::string_view key, std::string_view feature, Parts& parts) const;
  bool DecodeIndex(std::string_view list, RowSink& rows, size_t& count);

  Status AppendGeneral(std::string_view record, RowSink& rows);
  Status CheckIndex(const FeatureView* index) const;

  ExampleDecoderOptions options_;
  Name label_, index_, value_, weight_;
  Varints32Function varints32_;
  ExampleView view_;
  PodVector<uint64_t> keys_;
  PodVector<float> values_;
};

}  // namespace millrace::io
