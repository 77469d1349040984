// SPDX-License-Identifier: Apache-2.0
// Compares the general decoder with libprotobuf: same acceptance, same content. For the test and
// the fuzzer.
#pragma once

#include <google/protobuf/stubs/logging.h>

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "io/example/feature_view.h"
#include "tests/proto/example.pb.h"

namespace millrace::test {

// libprotobuf prints a line for each name that is not UTF-8.
inline void SilenceProtobuf() { google::protobuf::SetLogHandler(nullptr); }

inline bool SameFloats(const tensorflow::FloatList& want, std::span<const float> found) {
  return want.value_size() == static_cast<int>(found.size()) &&
         (found.empty() || std::memcmp(want.value().data(), found.data(), found.size_bytes()) == 0);
}

template <typename List, typename Values>
bool SameValues(const List& want, const Values& found) {
  return std::equal(want.value().begin(), want.value().end(), found.begin(), found.end());
}

inline bool SameFeature(const tensorflow::Feature& want, const io::FeatureView& found) {
  if (static_cast<int>(want.kind_case()) != static_cast<int>(found.kind)) return false;
  return SameValues(want.bytes_list(), found.bytes) &&
         SameFloats(want.float_list(), found.floats) && SameValues(want.int64_list(), found.ints);
}

// The first difference, or "".
inline std::string CompareFeatures(const tensorflow::Features& want, const io::ExampleView& found) {
  if (want.feature().size() != found.features().size()) return "number of features";
  std::string_view previous;
  for (const io::FeatureView& f : found.features()) {
    if (&f != found.features().data() && f.name <= previous) return "order of names";
    previous = f.name;
    const auto it = want.feature().find(std::string(f.name));
    if (it == want.feature().end()) return "an extra feature";
    if (!SameFeature(it->second, f)) return "the values of a feature";
    if (found.Find(f.name) != &f) return "Find";
  }
  return "";
}

inline std::string CompareLists(const tensorflow::FeatureLists& want,
                                const io::ExampleView& found) {
  if (want.feature_list().size() != found.feature_lists().size()) return "number of lists";
  for (const io::FeatureListView& list : found.feature_lists()) {
    const auto it = want.feature_list().find(std::string(list.name));
    if (it == want.feature_list().end()) return "an extra list";
    if (it->second.feature_size() != static_cast<int>(list.steps.size())) return "number of steps";
    for (size_t i = 0; i < list.steps.size(); ++i) {
      if (!SameFeature(it->second.feature(static_cast<int>(i)), list.steps[i])) return "a step";
    }
    if (found.FindList(list.name) != &list) return "FindList";
  }
  return "";
}

inline std::string CompareAcceptance(bool want, const Status& found) {
  if (want == found.ok()) return "";
  return want ? "protobuf accepts, we refuse: " + found.message() : "protobuf refuses, we accept";
}

// Where decoder and libprotobuf differ about `record`, or "". `view` shows whether reuse leaves
// traces.
inline std::string CompareWithProtobuf(std::string_view record, io::ExampleView& view) {
  const int size = static_cast<int>(record.size());
  tensorflow::Example example;
  bool accepted = example.ParseFromArray(record.data(), size);
  std::string difference = CompareAcceptance(accepted, io::ParseExample(record, view));
  if (difference.empty() && accepted) difference = CompareFeatures(example.features(), view);
  if (!difference.empty()) return "Example: " + difference;

  tensorflow::SequenceExample sequence;
  accepted = sequence.ParseFromArray(record.data(), size);
  difference = CompareAcceptance(accepted, io::ParseSequenceExample(record, view));
  if (difference.empty() && accepted) difference = CompareFeatures(sequence.context(), view);
  if (difference.empty() && accepted) difference = CompareLists(sequence.feature_lists(), view);
  return difference.empty() ? "" : "SequenceExample: " + difference;
}

}  // namespace millrace::test
