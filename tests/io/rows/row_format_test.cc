// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_format.h"

#include <gtest/gtest.h>

namespace millrace::io {
namespace {

std::string Encoded(const RowFormat& rows) {
  StateFields fields;
  AddRowFormat(rows, fields);
  return fields.Encode();
}

Result<std::optional<RowFormat>> Decoded(const std::string& text) {
  return RowFormatFrom(*StateFields::Decode(text));
}

TEST(RowFormat, HasTheSettingsOfItsFormatOnly) {
  RowOptions rows;
  rows.names = {.label = "click", .index = "ids", .value = "x y", .weight = ""};
  rows.index_base = 1;
  rows.hash_bits = 0;
  rows.hash_all = true;
  EXPECT_EQ(Encoded({InputFormat::kLibsvm, rows}), "input.format libsvm\ninput.index_base 1\n");
  EXPECT_EQ(Encoded({InputFormat::kVw, rows}),
            "input.format vw\ninput.hash_bits 0\ninput.hash_all 1\n");
  EXPECT_EQ(Encoded({InputFormat::kCriteo, rows}), "input.format criteo\ninput.hash_bits 0\n");
  rows.positive_label = 2.5f;
  EXPECT_EQ(Encoded({InputFormat::kCriteo, rows}),
            "input.format criteo\ninput.positive_label 2.5\ninput.hash_bits 0\n");
  rows.positive_label.reset();
  EXPECT_EQ(Encoded({InputFormat::kTfRecord, rows}),
            "input.format tfrecord\ninput.label_feature click\ninput.index_feature ids\n"
            "input.value_feature x y\n");
}

TEST(RowFormat, HasFieldsIfTheRowsHave) {
  RowOptions rows;
  rows.num_fields = 39;
  rows.names.field = "f";
  const std::string text = Encoded({InputFormat::kTfRecord, rows});
  EXPECT_EQ(text,
            "input.format tfrecord\ninput.num_fields 39\ninput.label_feature label\n"
            "input.index_feature index\ninput.value_feature value\ninput.field_feature f\n");
  const auto read = Decoded(text);
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ(Encoded(**read), text);
  EXPECT_EQ(Decoded("input.format criteo\ninput.num_fields 65537\n").status().message(),
            "header field input.num_fields: expected at most 65536, found 65537");
}

TEST(RowFormat, IsReadAsItWasWritten) {
  for (const InputFormat format : {InputFormat::kTfRecord, InputFormat::kLibsvm,
                                   InputFormat::kLibffm, InputFormat::kVw, InputFormat::kCriteo}) {
    for (const int bits : {0, 1, 20, 64}) {
      SCOPED_TRACE(InputFormatName(format));
      RowOptions rows;
      rows.names = {.label = "l", .index = "i", .value = "v", .weight = "w"};
      rows.index_base = 1;
      rows.hash_bits = bits;
      rows.hash_all = bits == 20;
      if (bits == 1) rows.positive_label = -0.3f;
      const std::string text = Encoded({format, rows});
      const auto read = Decoded(text);
      ASSERT_TRUE(read.ok()) << read.status().message();
      ASSERT_TRUE(read->has_value());
      EXPECT_EQ((*read)->format, format);
      EXPECT_EQ(Encoded(**read), text);
    }
  }
}

TEST(RowFormat, MayBeAbsentButNotMalformed) {
  EXPECT_FALSE(Decoded("num_features 3\n")->has_value());
  const auto error = [](const std::string& text) {
    const auto read = Decoded(text);
    EXPECT_EQ(read.status().code(), Code::kCorrupt);
    return read.status().message();
  };
  EXPECT_EQ(
      error("input.format arff\n"),
      "header field input.format: expected tfrecord, libsvm, libffm, vw, criteo, csv, json or "
      "table, found 'arff'");
  EXPECT_EQ(error("input.format vw\n"), "header: expected a field input.hash_bits, found none");
  EXPECT_EQ(error("input.format vw\ninput.hash_bits 65\n"),
            "header field input.hash_bits: expected at most 64, found 65");
  EXPECT_EQ(error("input.format libsvm\ninput.index_base x\n"),
            "header field input.index_base: expected a whole number, found 'x'");
}

}  // namespace
}  // namespace millrace::io
