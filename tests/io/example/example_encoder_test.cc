// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_encoder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "io/base/random.h"
#include "tests/proto/example.pb.h"

namespace millrace::io {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// libprotobuf's bytes, map entries sorted by name.
std::string Serialized(const tensorflow::Example& example) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

tensorflow::Feature& FeatureOf(tensorflow::Example& example, const std::string& name) {
  return (*example.mutable_features()->mutable_feature())[name];
}

std::string Expected(const FeatureNames& names, int64_t label, const std::vector<uint64_t>& keys,
                     const std::vector<float>& values) {
  tensorflow::Example example;
  auto* index = FeatureOf(example, names.index).mutable_int64_list();
  for (const uint64_t key : keys) index->add_value(static_cast<int64_t>(key));
  FeatureOf(example, names.label).mutable_int64_list()->add_value(label);
  if (!values.empty()) {
    auto* list = FeatureOf(example, names.value).mutable_float_list();
    for (const float value : values) list->add_value(value);
  }
  return Serialized(example);
}

std::string Encoded(const FeatureNames& names, int64_t label, const std::vector<uint64_t>& keys,
                    const std::vector<float>& values) {
  std::string out = "what was there before";
  EncodeSparseExample(names, label, keys, values, out);
  return out;
}

TEST(EncodeSparseExample, RandomRowsGiveProtobufsBytes) {
  Random random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<uint64_t> keys(random.Below(60));
    for (uint64_t& key : keys) key = random.Next() >> random.Below(64);
    std::vector<float> values(random.Below(2) == 0 ? 0 : keys.size());
    for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    const auto label = static_cast<int64_t>(random.Below(3)) - 1;
    ASSERT_EQ(Encoded({}, label, keys, values), Expected({}, label, keys, values));
  }
}

TEST(EncodeSparseExample, EveryVarintLengthIsRight) {
  std::vector<uint64_t> keys = {0, ~uint64_t{0}};
  for (int bit = 0; bit < 64; ++bit) {
    keys.push_back((uint64_t{1} << bit) - 1);
    keys.push_back(uint64_t{1} << bit);
  }
  EXPECT_EQ(Encoded({}, kMax, keys, {}), Expected({}, kMax, keys, {}));
  EXPECT_EQ(Encoded({}, kMin, keys, {}), Expected({}, kMin, keys, {}));
}

TEST(EncodeSparseExample, EmptyRowKeepsItsEmptyIndexList) {
  EXPECT_EQ(Encoded({}, 1, {}, {}), Expected({}, 1, {}, {}));
}

TEST(EncodeSparseExample, LongRowsHaveLongLengths) {
  for (const size_t size : {15, 16, 17, 100, 127, 128, 5000, 300000}) {
    SCOPED_TRACE(size);
    const std::vector<uint64_t> keys(size, 33'762'577);
    const std::vector<float> values(size, 1.0f);
    EXPECT_EQ(Encoded({}, 0, keys, values), Expected({}, 0, keys, values));
  }
}

TEST(EncodeSparseExample, NamesAreTakenAsGiven) {
  FeatureNames names;
  names.index = "feature/with a long name" + std::string(200, 'i');  // sorts first
  names.label = "l";
  names.value = "v";
  EXPECT_EQ(Encoded(names, 1, {5, 6}, {.5f, 2}), Expected(names, 1, {5, 6}, {.5f, 2}));
}

TEST(ExampleBuilder, AllKindsGiveProtobufsBytes) {
  const std::vector<int64_t> ints = {3, -1, kMin, kMax, 0};
  const std::vector<float> floats = {1, -0.0f, std::numeric_limits<float>::infinity()};
  const std::string binary("\0\xff\n", 3);
  const std::vector<std::string_view> bytes = {binary, "", "text"};
  tensorflow::Example example;
  for (const std::string_view b : bytes)
    FeatureOf(example, "a").mutable_bytes_list()->add_value(std::string(b));
  for (const float f : floats) FeatureOf(example, "b").mutable_float_list()->add_value(f);
  for (const int64_t i : ints) FeatureOf(example, "c").mutable_int64_list()->add_value(i);

  ExampleBuilder builder;
  builder.AddBytes("a", bytes);
  builder.AddFloat("b", floats);
  builder.AddInt64("c", ints);
  std::string out;
  builder.Finish(out);
  EXPECT_EQ(out, Serialized(example));
}

TEST(ExampleBuilder, EmptyListsKeepTheirKind) {
  ExampleBuilder builder;
  builder.AddBytes("a", {});
  builder.AddFloat("b", {});
  builder.AddInt64("c", {});
  std::string out;
  builder.Finish(out);
  tensorflow::Example example;
  ASSERT_TRUE(example.ParseFromString(out));
  EXPECT_TRUE(FeatureOf(example, "a").has_bytes_list());
  EXPECT_TRUE(FeatureOf(example, "b").has_float_list());
  EXPECT_TRUE(FeatureOf(example, "c").has_int64_list());
  EXPECT_EQ(out, Serialized(example));
}

TEST(ExampleBuilder, FinishClearsTheBuilder) {
  ExampleBuilder builder;
  builder.AddInt64("first", std::vector<int64_t>{1});
  std::string out;
  builder.Finish(out);
  builder.Finish(out);
  tensorflow::Example example;
  example.mutable_features();
  EXPECT_EQ(out, Serialized(example));
}

TEST(ExampleBuilder, LargeBytesKeepTheirLength) {
  const std::string image(1'000'000, 'x');
  ExampleBuilder builder;
  builder.AddBytes("image/encoded", std::vector<std::string_view>{image});
  std::string out;
  builder.Finish(out);
  tensorflow::Example example;
  ASSERT_TRUE(example.ParseFromString(out));
  EXPECT_EQ(FeatureOf(example, "image/encoded").bytes_list().value(0), image);
}

}  // namespace
}  // namespace millrace::io
