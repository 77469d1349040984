// SPDX-License-Identifier: Apache-2.0
#include "io/example/feature_view.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/feature_view_oracle.h"
#include "tests/support/random_message.h"

namespace millrace::io {
namespace {

using test::CompareWithProtobuf;
using test::RandomMessage;
using test::SilenceProtobuf;

constexpr char kCorpus[] = MILLRACE_SOURCE_DIR "/tests/fuzz/corpus/feature_view";

std::string Hex(std::string_view bytes) {
  std::string hex;
  char buffer[4];
  for (const char c : bytes) {
    std::snprintf(buffer, sizeof buffer, "%02x ", static_cast<uint8_t>(c));
    hex += buffer;
  }
  return hex;
}

// A length-delimited field of fewer than 128 bytes.
std::string Field(int number, std::string_view value) {
  std::string out;
  out += static_cast<char>(number << 3 | 2);
  out += static_cast<char>(value.size());
  return out += value;
}

std::string OneFeature(std::string_view name, std::string_view feature) {
  return Field(1, Field(1, Field(1, name) + Field(2, feature)));
}

std::string Int64s(std::string_view packed) { return Field(3, Field(1, packed)); }

void ExpectSame(std::string_view record, ExampleView& view) {
  ASSERT_EQ(CompareWithProtobuf(record, view), "") << Hex(record);
}

TEST(FeatureView, ShowsAllKindsSortedByName) {
  tensorflow::Example example;
  auto& map = *example.mutable_features()->mutable_feature();
  map["z"].mutable_int64_list()->add_value(-1);
  map["m"].mutable_float_list()->add_value(0.5f);
  map["a"].mutable_bytes_list()->add_value("text");
  map["none"];
  const std::string record = example.SerializeAsString();
  ExampleView view;
  ASSERT_TRUE(ParseExample(record, view).ok());
  ASSERT_EQ(view.features().size(), 4u);
  EXPECT_EQ(view.features()[0].bytes[0], "text");
  EXPECT_EQ(view.features()[1].floats[0], 0.5f);
  EXPECT_EQ(view.features()[2].kind, FeatureKind::kNone);
  EXPECT_EQ(view.features()[3].ints[0], -1);
  EXPECT_EQ(view.Find("b"), nullptr);
  EXPECT_EQ(view.unknown_fields(), 0u);
}

TEST(FeatureView, BytesAreViewsIntoTheRecord) {
  const std::string record = OneFeature("name", Field(1, Field(1, "payload")));
  ExampleView view;
  ASSERT_TRUE(ParseExample(record, view).ok());
  const std::string_view value = view.Find("name")->bytes[0];
  EXPECT_GE(value.data(), record.data());
  EXPECT_LE(value.data() + value.size(), record.data() + record.size());
}

TEST(FeatureView, MovedViewKeepsItsContent) {
  const std::string record = OneFeature("name", Int64s("\x05"));
  ExampleView view;
  ASSERT_TRUE(ParseExample(record, view).ok());
  const ExampleView moved = std::move(view);
  EXPECT_EQ(moved.Find("name")->ints[0], 5);
}

TEST(FeatureView, LastOfEqualKeysWins) {
  const std::string record = OneFeature("k", Int64s("\x01")) + OneFeature("k", Int64s("\x02"));
  ExampleView view;
  ASSERT_TRUE(ParseExample(record, view).ok());
  ASSERT_EQ(view.features().size(), 1u);
  EXPECT_EQ(view.Find("k")->ints[0], 2);
}

TEST(FeatureView, AMillionEqualKeysStaySmall) {
  std::string features;
  for (int i = 0; i < 1'000'000; ++i) features += Field(1, "");
  std::string record = "\x0a";
  for (size_t n = features.size(); n > 0; n >>= 7) {
    record += static_cast<char>((n & 0x7f) | (n >= 0x80 ? 0x80 : 0));
  }
  record += features;
  ExampleView view;
  ASSERT_TRUE(ParseExample(record, view).ok());
  EXPECT_EQ(view.features().size(), 1u);
}

TEST(FeatureView, HandMadeCornersMatchProtobuf) {
  SilenceProtobuf();
  const std::string one = Int64s("\x01");
  const std::string cases[] = {
      "",
      Field(1, ""),
      Field(1, Field(1, "")),                             // entry without key and value
      Field(1, Field(1, Field(1, "k"))),                  // without value
      Field(1, Field(1, Field(2, one))),                  // without key
      Field(1, Field(1, Field(2, one) + Field(1, "k"))),  // value first
      Field(1, Field(1, Field(1, "k") + Field(2, one) + Field(2, one))),  // values merge
      Field(1, Field(1, Field(1, "k") + Field(1, "j") + Field(2, one))),
      OneFeature("k", one + one),
      OneFeature("k", one + Field(2, Field(1, "abcd"))),
      OneFeature("k", one + Field(2, Field(1, "abcd")) + one),
      OneFeature("k", Field(2, "")),
      OneFeature("k", Field(2, Field(1, "abcde"))),
      OneFeature("k", Int64s("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
      OneFeature("k", Int64s("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
      OneFeature("k", Int64s("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
      OneFeature("k", Int64s("\x80")),
      OneFeature("\xff", one),
      OneFeature("\xed\xa0\x80", one),      // a surrogate
      OneFeature("\xc0\x80", one),          // over-long
      OneFeature("\xf4\x90\x80\x80", one),  // beyond U+10FFFF
      OneFeature("\xf4\x8f\xbf\xbf", one),
      Field(1, "") + std::string("\x0b\x0c", 2),
      Field(1, "") + std::string("\x0b\x14", 2),
      std::string("\x0c", 1),
      std::string("\x00", 1),
      std::string("\x02\x00", 2),
      std::string("\x0e", 1),
      std::string("\x0f", 1),
      std::string("\x8a\x80\x80\x80\x00\x00", 6),      // a tag of 5 bytes
      std::string("\x8a\x80\x80\x80\x70\x00", 6),      // with bits beyond 32
      std::string("\x8a\x80\x80\x80\x80\x00\x00", 7),  // of 6 bytes
      std::string("\x0a\x80\x80\x80\x80\x00", 6),      // a length of 5 bytes
      std::string("\x0a\x80\x80\x80\x80\x10", 6),
      std::string("\x0a\x80\x80\x80\x80\x80\x00", 7),
      std::string("\x0a\xff\xff\xff\xff\x07", 6),
  };
  ExampleView view;
  for (const std::string& record : cases) ExpectSame(record, view);
}

TEST(FeatureView, GroupsNestToProtobufsBoundAndNoDeeper) {
  ExampleView view;
  for (int levels = 95; levels <= 105; ++levels) {
    const std::string groups = std::string(levels, '\x2b') + std::string(levels, '\x2c');
    for (const std::string& record : {groups, Field(1, groups)}) {
      if (record.size() < 128 || record == groups) ExpectSame(record, view);
    }
  }
  const std::string bomb(10'000'000, '\x2b');
  EXPECT_FALSE(ParseExample(bomb, view).ok());
}

TEST(FeatureView, EveryTruncationMatchesProtobuf) {
  ExampleView view;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const std::string record = RandomMessage(seed).Make();
    for (size_t size = 0; size <= record.size(); ++size) {
      // A copy of its own, so that reading past the end shows.
      ExpectSame(std::string(record, 0, size), view);
    }
  }
}

TEST(FeatureView, RandomMessagesMatchProtobuf) {
  SilenceProtobuf();
  ExampleView view;
  int accepted = 0;
  for (uint64_t seed = 0; seed < 30'000; ++seed) {
    SCOPED_TRACE(seed);
    const std::string record = RandomMessage(seed).Make();
    ExpectSame(record, view);
    if (HasFatalFailure()) return;
    accepted += ParseSequenceExample(record, view).ok();
  }
  // The generator must be right often and wrong often.
  EXPECT_GT(accepted, 12'000);
  EXPECT_LT(accepted, 29'000);
}

TEST(FeatureView, MutatedMessagesMatchProtobuf) {
  SilenceProtobuf();
  ExampleView view;
  int accepted = 0;
  for (uint64_t seed = 0; seed < 60'000; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessage message(seed);
    std::string record = message.Make();
    message.Mutate(record);
    ExpectSame(record, view);
    if (HasFatalFailure()) return;
    accepted += ParseSequenceExample(record, view).ok();
  }
  EXPECT_GT(accepted, 6'000);
  EXPECT_LT(accepted, 54'000);
}

TEST(FeatureView, FuzzCorpusMatchesProtobuf) {
  SilenceProtobuf();
  ExampleView view;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    SCOPED_TRACE(entry.path());
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string record{std::istreambuf_iterator<char>(in), {}};
    ExpectSame(record, view);
    ++files;
  }
  EXPECT_GT(files, 10);
}

TEST(FeatureView, ErrorNamesByteExpectedAndFound) {
  // The list claims 5 bytes of packed values, its parent has 2.
  const std::string record = OneFeature("k", std::string("\x1a\x04\x0a\x05\x01\x02", 6));
  ExampleView view;
  const Status status = ParseExample(record, view);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(),
            "byte 12 of the record: expected a length that ends within the message, "
            "found 05 01 02 and the end");
  EXPECT_TRUE(view.features().empty());
}

TEST(DetectRecordKind, DistinguishesTheKinds) {
  tensorflow::Example example;
  (*example.mutable_features()->mutable_feature())["k"].mutable_int64_list()->add_value(3);
  tensorflow::SequenceExample sequence;
  *sequence.mutable_context() = example.features();
  (*sequence.mutable_feature_lists()->mutable_feature_list())["l"].add_feature();
  ExampleView view;
  EXPECT_EQ(DetectRecordKind(example.SerializeAsString(), view), RecordKind::kExample);
  EXPECT_EQ(DetectRecordKind(sequence.SerializeAsString(), view), RecordKind::kSequenceExample);
  EXPECT_EQ(DetectRecordKind("", view), RecordKind::kExample);
}

TEST(DetectRecordKind, TextAndOtherMessagesAreOther) {
  ExampleView view;
  EXPECT_EQ(DetectRecordKind("abcd", view), RecordKind::kOther);
  EXPECT_EQ(DetectRecordKind("hello world 1", view), RecordKind::kOther);
  EXPECT_EQ(DetectRecordKind(Field(3, "x"), view), RecordKind::kOther);
  EXPECT_EQ(DetectRecordKind(Field(1, "a name"), view), RecordKind::kOther);
  EXPECT_EQ(DetectRecordKind("\x08\x01", view), RecordKind::kOther);
  // A TensorBoard event: a double in field 1, a varint in field 2.
  EXPECT_EQ(DetectRecordKind(std::string("\x09\0\0\0\0\0\0\xf0\x3f\x10\x01", 11), view),
            RecordKind::kOther);
}

}  // namespace
}  // namespace millrace::io
