// SPDX-License-Identifier: Apache-2.0
#include "io/text/file_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace millrace::io {
namespace {

TEST(FileFormat, DescribesFilesThatAreNoTfRecords) {
  const std::pair<std::string, std::string> cases[] = {
      {"1 3:0.5 7:1\n", "libsvm text"},
      {"\n# numbers\n-1 |f a b:2\n", "vw text"},
      {"1" + std::string(39, '\t') + "\n", "criteo text"},
      {"user,item,clicked\n1,2,0\n", "text: expected TFRecords"},
      {std::string("\0\0\x08\x03\0\0\0\x01", 8) + "\0\0\0", "an IDX file"},
      {"\xff\xd8\xff\xe0 and the rest of it", "a JPEG image"},
      {"BZh91AY&SY and so on", "bzip2 data"},
      {"PAR1 and so on and on", "a Parquet file"},
      {"MILLRACE and a version", "a model or checkpoint"},
  };
  for (const auto& [bytes, what] : cases) {
    EXPECT_TRUE(DescribeContent(bytes).starts_with("; the file looks like " + what))
        << DescribeContent(bytes);
  }
  EXPECT_EQ(DescribeContent(""), "");
  EXPECT_EQ(DescribeContent(std::string("\1\2\3\0", 4)), "");
}

TEST(FileFormat, DetectsTextFormatsByALine) {
  EXPECT_EQ(*DetectTextFormat("1 3:0.5 7:1"), TextFormat::kLibsvm);
  EXPECT_EQ(*DetectTextFormat("-1 |f a b:2"), TextFormat::kVw);
  EXPECT_EQ(*DetectTextFormat("1" + std::string(39, '\t')), TextFormat::kCriteo);
  EXPECT_FALSE(DetectTextFormat("user,item,clicked").ok());
  EXPECT_TRUE(IsBlankLine(" \t\r"));
  EXPECT_TRUE(IsBlankLine(" # a comment"));
  EXPECT_FALSE(IsBlankLine("1 3:1"));
}

}  // namespace
}  // namespace millrace::io
