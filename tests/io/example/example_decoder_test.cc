// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_decoder.h"

#include <gtest/gtest.h>

#include "io/base/random.h"
#include "tests/support/example_decoder_oracle.h"
#include "tests/support/feature_view_oracle.h"
#include "tests/support/random_message.h"

namespace millrace::io {
namespace {

using test::CompareDecoders;
using test::RandomMessage;
using test::SilenceProtobuf;

class Decoder : public testing::TestWithParam<CpuLevel> {
  void SetUp() override {
    SilenceProtobuf();
    if (GetParam() > DetectCpuLevel())
      GTEST_SKIP() << "this processor lacks " << CpuLevelName(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, Decoder,
                         testing::Values(CpuLevel::kPlain, CpuLevel::kAvx2, CpuLevel::kAvx512),
                         [](const auto& param) { return std::string(CpuLevelName(param.param)); });

std::string Padded(std::string_view record) {
  return std::string(record) + std::string(kVarintReadSlack, '\0');
}

Status Append(ExampleDecoder& decoder, std::string_view record, BatchBuilder& rows) {
  const std::string padded = Padded(record);
  return decoder.Append({padded.data(), record.size()}, rows);
}

constexpr int kFields = 39;

// A record as TensorFlow writes it, with variations that stay on the fast path or just leave it.
std::string RandomRecord(Random& random) {
  std::vector<uint64_t> keys(random.Below(60));
  for (uint64_t& key : keys) key = random.Next() >> (30 + random.Below(34));
  std::vector<float> values(random.Below(20) == 0 ? random.Below(60) : keys.size(), 1.0f);
  if (random.Below(2) == 0) {
    for (float& v : values) v = static_cast<float>(random.Uniform() * 4 - 2);
  }
  if (random.Below(30) == 0 && !values.empty()) values[0] = NAN;
  std::string record;
  EncodeSparseExample(
      {}, static_cast<int64_t>(random.Below(4)) - 1, keys,
      random.Below(3) == 0 ? std::span<const float>() : std::span<const float>(values), record);
  if (random.Below(3) > 0) return record;
  ExampleBuilder builder;
  const std::string_view text[] = {"abc", ""};
  const int64_t ints[] = {1, -7};
  const float weight[] = {static_cast<float>(random.Below(3))};
  const std::vector<int64_t> index(keys.begin(), keys.end());
  std::vector<int64_t> fields(random.Below(10) == 0 ? random.Below(60) : keys.size());
  for (int64_t& field : fields) field = static_cast<int64_t>(random.Below(kFields));
  if (random.Below(30) == 0 && !fields.empty()) fields.back() = random.Below(2) == 0 ? -1 : kFields;
  builder.AddFloat("weight", weight);
  builder.AddBytes("extra", text);
  builder.AddInt64("label", std::span(ints).first(1));
  builder.AddInt64("index", index);
  if (random.Below(4) > 0) builder.AddInt64("field", fields);
  if (random.Below(2) == 0) builder.AddInt64("more", ints);
  builder.Finish(record);
  return record;
}

TEST_P(Decoder, EqualsProtobufOnRecordsAsTheyAreWritten) {
  for (const uint64_t num_features : {uint64_t{0}, uint64_t{1} << 26, uint64_t{1} << 34}) {
    for (const char* weight : {"", "weight"}) {
      const ExampleDecoderOptions options{.names = {.weight = weight},
                                          .num_features = num_features};
      ExampleDecoder decoder(options, GetParam());
      for (uint64_t seed = 0; seed < 3000; ++seed) {
        Random random(seed);
        ASSERT_EQ(CompareDecoders(RandomRecord(random), decoder, options), "")
            << "seed " << seed << " num_features " << num_features << " weight '" << weight << "'";
      }
    }
  }
}

TEST_P(Decoder, EqualsProtobufOnRowsWithFields) {
  for (const char* name : {"field", "more", "absent"}) {
    const ExampleDecoderOptions options{
        .names = {.field = name}, .num_features = 1 << 26, .num_fields = kFields};
    ExampleDecoder decoder(options, GetParam());
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      Random random(seed);
      ASSERT_EQ(CompareDecoders(RandomRecord(random), decoder, options), "")
          << "seed " << seed << " field feature " << name;
    }
  }
}

TEST_P(Decoder, EqualsProtobufOnMutatedRecords) {
  for (const size_t num_fields : {0, kFields}) {
    const ExampleDecoderOptions options{.num_features = 1 << 26, .num_fields = num_fields};
    ExampleDecoder decoder(options, GetParam());
    for (uint64_t seed = 0; seed < 30000; ++seed) {
      Random random(seed);
      std::string record = RandomRecord(random);
      RandomMessage(seed).Mutate(record);
      ASSERT_EQ(CompareDecoders(record, decoder, options), "") << "seed " << seed;
    }
  }
}

TEST_P(Decoder, EqualsProtobufOnAnyMessage) {
  const ExampleDecoderOptions options;
  ExampleDecoder decoder(options, GetParam());
  for (uint64_t seed = 0; seed < 30000; ++seed) {
    RandomMessage messages(seed);
    std::string record = messages.Make();
    if (seed % 2 == 0) messages.Mutate(record);
    ASSERT_EQ(CompareDecoders(record, decoder, options), "") << "seed " << seed;
  }
}

TEST_P(Decoder, TruncatedAnywhereEqualsProtobuf) {
  const ExampleDecoderOptions options{.num_features = 1 << 26};
  ExampleDecoder decoder(options, GetParam());
  Random random(9);
  const std::string record = RandomRecord(random);
  for (size_t size = 0; size <= record.size(); ++size) {
    ASSERT_EQ(CompareDecoders(record.substr(0, size), decoder, options), "") << "size " << size;
  }
}

TEST(ExampleDecoder, OnesAreNotStoredUntilAnotherValueComes) {
  ExampleDecoder decoder({.num_features = 100});
  BatchBuilder rows;
  rows.Clear(false);
  std::string record;
  const std::vector<uint64_t> keys = {7, 3};
  EncodeSparseExample({}, 1, keys, std::vector<float>{1, 1}, record);
  ASSERT_TRUE(Append(decoder, record, rows).ok());
  EXPECT_TRUE(rows.batch.values.empty());
  EncodeSparseExample({}, 0, keys, std::vector<float>{1, 2}, record);
  ASSERT_TRUE(Append(decoder, record, rows).ok());
  EncodeSparseExample({}, 0, keys, {}, record);
  ASSERT_TRUE(Append(decoder, record, rows).ok());
  rows.Trim();
  EXPECT_EQ((std::vector<float>(rows.batch.values.begin(), rows.batch.values.end())),
            (std::vector<float>{1, 1, 1, 2, 1, 1}));
  EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
            (std::vector<uint32_t>{7, 3, 7, 3, 7, 3}));
}

std::string WithFields(const std::vector<int64_t>& index, const std::vector<int64_t>& fields) {
  const int64_t label = 1;
  ExampleBuilder builder;
  builder.AddInt64("label", {&label, 1});
  builder.AddInt64("index", index);
  builder.AddInt64("field", fields);
  std::string record;
  builder.Finish(record);
  return record;
}

TEST(ExampleDecoder, FieldsComeFromTheirListOrFromTheOrder) {
  ExampleDecoder decoder({.num_features = 100, .num_fields = 3});
  BatchBuilder rows;
  rows.Clear(false);
  std::string record;
  const std::vector<uint64_t> keys = {7, 3, 9};
  EncodeSparseExample({}, 1, keys, {}, record);
  ASSERT_TRUE(Append(decoder, record, rows).ok());
  ASSERT_TRUE(Append(decoder, WithFields({5, 5, 6, 7}, {2, 2, 0, 1}), rows).ok());
  EncodeSparseExample({}, 1, std::vector<uint64_t>{}, {}, record);
  ASSERT_TRUE(Append(decoder, record, rows).ok()) << "a row without indices needs no fields";
  EXPECT_EQ((std::vector<uint16_t>(rows.batch.fields.begin(), rows.batch.fields.end())),
            (std::vector<uint16_t>{0, 1, 2, 2, 2, 0, 1}));
  ExampleDecoder plain({.num_features = 100});
  rows.Clear(false);
  ASSERT_TRUE(Append(plain, WithFields({5, 6}, {9, 9, 9}), rows).ok());
  EXPECT_TRUE(rows.batch.fields.empty()) << "nobody asked for them";
}

TEST(ExampleDecoder, FieldErrorsSayExpectedAndFound) {
  ExampleDecoder decoder({.num_features = 100, .num_fields = 3});
  const auto error = [&](const std::string& record) {
    BatchBuilder rows;
    rows.Clear(false);
    const Status status = Append(decoder, record, rows);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(rows.batch.rows() + rows.batch.fields.size(), 0u);
    return status.message();
  };
  EXPECT_EQ(error(WithFields({1, 2}, {0, 3})),
            "field feature 'field': expected fields from 0 to below num_fields = 3, found 3 at "
            "position 1");
  EXPECT_EQ(error(WithFields({1, 2}, {-1, 0})),
            "field feature 'field': expected fields from 0 to below num_fields = 3, found -1 at "
            "position 0");
  EXPECT_EQ(error(WithFields({1, 2}, {0})),
            "field feature 'field': expected 2 int64 values, as many as there are indices, found "
            "1 int64 value");
  std::string record;
  EncodeSparseExample({}, 1, std::vector<uint64_t>{1, 2}, {}, record);
  EXPECT_EQ(error(record),
            "this row has no fields: expected the feature 'field', or exactly one index for each "
            "of the 3 fields, found 2 indices");
}

struct BadCase {
  const char* what;
  int64_t label;
  std::vector<uint64_t> keys;
  std::vector<float> values;
};

TEST(ExampleDecoder, ErrorsSayExpectedAndFound) {
  const BadCase cases[] = {
      {"label feature 'label': expected 0, 1 or -1, found 2 (the option positive_label makes two "
       "classes of many)",
       2,
       {1},
       {1}},
      {"index feature 'index': expected indices from 0 to below num_features = 10, found 10 at "
       "position 1; a model with this index needs num_features=11 or more (millrace-records stat "
       "prints the largest)",
       1,
       {1, 10},
       {1, 1}},
      {"value feature 'value': expected 2 float values, as many as there are indices, found 3 "
       "float values",
       1,
       {1, 2},
       {1, 2, 3}},
      {"value feature 'value': expected finite numbers, found nan at position 0", 1, {1}, {NAN}},
      {"value feature 'value': expected finite numbers, found inf at position 1",
       1,
       {1, 2},
       {1, INFINITY}},
  };
  ExampleDecoder decoder({.num_features = 10});
  for (const BadCase& bad : cases) {
    BatchBuilder rows;
    rows.Clear(false);
    std::string record;
    EncodeSparseExample({}, bad.label, bad.keys, bad.values, record);
    EXPECT_EQ(Append(decoder, record, rows).message(), bad.what);
    EXPECT_EQ(rows.batch.rows(), 0u);
  }
}

// On the fast path (a byte, a float) and on the general one.
TEST(ExampleDecoder, APositiveLabelMakesTwoClassesOfMany) {
  for (const float positive : {7.0f, 300.0f, 0.5f}) {
    SCOPED_TRACE(positive);
    ExampleDecoder decoder({.num_features = 10, .positive_label = positive});
    BatchBuilder rows;
    rows.Clear(false);
    for (const float label : {positive, 1.0f, 300.5f}) {
      const int64_t key = 3;
      const auto whole = static_cast<int64_t>(label);
      ExampleBuilder builder;
      builder.AddInt64("index", {&key, 1});
      if (static_cast<float>(whole) == label) {
        builder.AddInt64("label", {&whole, 1});
      } else {
        builder.AddFloat("label", {&label, 1});
      }
      std::string record;
      builder.Finish(record);
      ASSERT_TRUE(Append(decoder, record, rows).ok());
    }
    EXPECT_EQ(std::vector<float>(rows.batch.labels.begin(), rows.batch.labels.end()),
              (std::vector<float>{1, 0, 0}));
  }
}

TEST(ExampleDecoder, NegativeIndexIsOutOfRange) {
  ExampleBuilder builder;
  const int64_t one[] = {1}, minus[] = {-1};
  builder.AddInt64("index", minus);
  builder.AddInt64("label", one);
  std::string record;
  builder.Finish(record);
  ExampleDecoder decoder({.num_features = 10});
  BatchBuilder rows;
  rows.Clear(false);
  EXPECT_NE(Append(decoder, record, rows).message().find("found -1 at position 0"),
            std::string::npos);
}

TEST(ExampleDecoder, KeyOfTheInterceptIsReserved) {
  ExampleBuilder builder;
  const int64_t one[] = {1}, keys[] = {-2, -1};
  builder.AddInt64("index", keys);
  builder.AddInt64("label", one);
  std::string record;
  builder.Finish(record);
  ExampleDecoder decoder({.num_features = 0});
  BatchBuilder rows;
  rows.Clear(true);
  EXPECT_EQ(Append(decoder, record, rows).message(),
            "index feature 'index': expected any 64-bit key but 18446744073709551615 (-1), which "
            "is reserved for the intercept, found it at position 1");
}

TEST(ExampleDecoder, NonExampleIsRefusedWithAMessage) {
  ExampleDecoder decoder({.num_features = 10});
  BatchBuilder rows;
  rows.Clear(false);
  EXPECT_EQ(Append(decoder, "", rows).message(),
            "label feature 'label': expected one int64 or float, found no such feature; "
            "the record has no features");
  EXPECT_FALSE(Append(decoder, "hello, I am some text", rows).ok());
}

TEST(ExampleDecoder, UsesTheNamesItIsGiven) {
  const FeatureNames names{.label = "clicked", .index = "a-rather-long-feature-name", .value = "v"};
  std::string record;
  EncodeSparseExample(names, 1, std::vector<uint64_t>{5}, std::vector<float>{0.5f}, record);
  ExampleDecoder decoder({.names = names, .num_features = 10});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(decoder, record, rows).ok());
  EXPECT_EQ(rows.batch.cols[0], 5u);
  EXPECT_EQ(rows.batch.values[0], 0.5f);
  ExampleDecoder other({.num_features = 10});
  EXPECT_FALSE(Append(other, record, rows).ok());
}

}  // namespace
}  // namespace millrace::io
