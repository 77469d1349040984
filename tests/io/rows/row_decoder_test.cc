// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_decoder.h"

#include <gtest/gtest.h>

#include "io/example/varint_list.h"

namespace millrace::io {
namespace {

Status Append(RowDecoder& decoder, std::string line, BatchBuilder& rows) {
  const size_t size = line.size();
  line.append(kVarintReadSlack, '\0');
  return decoder.Append({line.data(), size}, rows);
}

TEST(InputFormat, IsDetectedByTheExtension) {
  EXPECT_EQ(*InputFormatFromExtensions({"a.libsvm", "b.svm.gz"}), InputFormat::kLibsvm);
  EXPECT_EQ(*InputFormatFromExtensions({"x.vw"}), InputFormat::kVw);
  EXPECT_EQ(*InputFormatFromExtensions({"day_1.tsv.zst"}), InputFormat::kCriteo);
  EXPECT_EQ(*InputFormatFromExtensions({"train-00000-of-00002"}), InputFormat::kTfRecord);
  EXPECT_EQ(InputFormatFromExtensions({"a.libsvm", "b.tfrecord"}).status().code(), Code::kInvalid);
  EXPECT_EQ(InputFormatFromName("csv").status().code(), Code::kInvalid);
}

TEST(RowDecoder, LibsvmRowsAreCheckedLikeExamples) {
  const auto decoder = MakeRowDecoder(InputFormat::kLibsvm, {.num_features = 10, .index_base = 1});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*decoder, "-1 1:1 10:1", rows).ok());
  ASSERT_TRUE(Append(*decoder, "+1 2:0.5", rows).ok());
  EXPECT_EQ(Append(*decoder, "3 2:0.5", rows).message(),
            "label: expected 0, 1 or -1, found 3 (the option positive_label of millrace-records "
            "convert makes "
            "two classes of many)");
  EXPECT_EQ(Append(*decoder, "1 11:1", rows).message(),
            "index: expected 0 to below num_features = 10, found 10; a model with this index needs "
            "num_features=11 or more");
  rows.Trim();
  EXPECT_EQ(rows.batch.rows(), 2u);
  EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
            (std::vector<uint32_t>{0, 9, 1}));
  EXPECT_EQ((std::vector<float>(rows.batch.values.begin(), rows.batch.values.end())),
            (std::vector<float>{1, 1, 0.5}));
  EXPECT_EQ((std::vector<float>(rows.batch.labels.begin(), rows.batch.labels.end())),
            (std::vector<float>{0, 1}));
}

TEST(RowDecoder, KeyOfTheInterceptIsReserved) {
  BatchBuilder rows;
  rows.Clear(true);
  const std::string key = "18446744073709551615";
  for (const auto& [format, line] : {std::pair(InputFormat::kLibsvm, "1 " + key + ":1"),
                                     std::pair(InputFormat::kVw, "1 |f " + key)}) {
    EXPECT_EQ(Append(*MakeRowDecoder(format, {}), line, rows).message(),
              "index: expected any 64-bit key but 18446744073709551615 (-1), which is reserved "
              "for the intercept, found it");
  }
  EXPECT_EQ(rows.batch.rows(), 0u);
}

TEST(RowDecoder, TooLargeVwKeysAreToldFromHashes) {
  const auto decoder = MakeRowDecoder(InputFormat::kVw, {.num_features = 1000});
  BatchBuilder rows;
  rows.Clear(false);
  const std::string number = Append(*decoder, "1 |f 1000", rows).message();
  EXPECT_NE(number.find("num_features=1001"), std::string::npos) << number;
  const std::string name = Append(*decoder, "1 |f name", rows).message();
  EXPECT_NE(name.find("hash_bits=9"), std::string::npos) << name;
}

TEST(RowDecoder, TooLargeHashesNameTheNumberOfFeatures) {
  BatchBuilder rows;
  rows.Clear(false);
  const auto advice = [&](int hash_bits) {
    const auto decoder =
        MakeRowDecoder(InputFormat::kVw, {.num_features = 2, .hash_bits = hash_bits});
    const std::string message = Append(*decoder, "1 |f a b c d e f g h", rows).message();
    return message.substr(message.find(';') + 2);
  };
  EXPECT_EQ(advice(20), "hash_bits=20 needs num_features=1048576");
  EXPECT_EQ(advice(32), "hash_bits=32 needs num_features=4294967296");
  EXPECT_EQ(advice(40), "hash_bits above 32 need num_features=0");
}

TEST(RowDecoder, VwImportanceBecomesTheWeight) {
  const auto decoder = MakeRowDecoder(InputFormat::kVw, {});
  BatchBuilder rows;
  rows.Clear(true);
  ASSERT_TRUE(Append(*decoder, "1 |f 3:2 name", rows).ok());
  ASSERT_TRUE(Append(*decoder, "-1 2.5 |f 4", rows).ok());
  EXPECT_EQ((std::vector<float>(rows.batch.weights.begin(), rows.batch.weights.end())),
            (std::vector<float>{1, 2.5}));
  EXPECT_EQ(rows.nnz(), 3u);
}

TEST(RowDecoder, CriteoRowsHaveAKeyAField) {
  const auto decoder =
      MakeRowDecoder(InputFormat::kCriteo, {.num_features = 1 << 20, .hash_bits = 20});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*decoder, "1" + std::string(39, '\t'), rows).ok());
  EXPECT_EQ(rows.nnz(), 39u);
  EXPECT_TRUE(rows.batch.values.empty());
}

}  // namespace
}  // namespace millrace::io
