// SPDX-License-Identifier: Apache-2.0
// Writes tf.Example messages: a fast function for sparse rows, and a general builder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace::io {

// The name that programs look for unless they are told another one.
constexpr char kWeightFeature[] = "weight";

// The feature names of a sparse example. An empty `weight` means that examples have no weight.
struct FeatureNames {
  std::string label = "label";
  std::string index = "index";
  std::string value = "value";
  std::string weight = "";
  std::string field = "field";  // int64 list as long as index; only where fields are asked for
};

// Replaces `out` by Example{index: int64 list, label: int64, value: float list}, fields in that
// (sorted) order when the names are the default ones. An empty `values` leaves the value feature
// out (all ones).
void EncodeSparseExample(const FeatureNames& names, int64_t label, std::span<const uint64_t> keys,
                         std::span<const float> values, std::string& out);

// Any Example, feature by feature:
//   ExampleBuilder b; b.AddBytes("image/encoded", {jpeg}); b.AddInt64("image/class/label", {3});
//   b.Finish(out);
class ExampleBuilder {
 public:
  void AddInt64(std::string_view name, std::span<const int64_t> values);
  void AddFloat(std::string_view name, std::span<const float> values);
  void AddBytes(std::string_view name, std::span<const std::string_view> values);
  // Replaces `out` by the message; the builder is empty afterwards.
  void Finish(std::string& out);

 private:
  void AddFeature(std::string_view name, int list_field, std::string_view list);
  std::string features_;  // the encoded map entries
  std::string list_;      // scratch
};

}  // namespace millrace::io
