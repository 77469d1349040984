// SPDX-License-Identifier: Apache-2.0
#include "io/text/file_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "io/record/compressor.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

TEST(FileFormat, DescribesFilesThatAreNoTfRecords) {
  const std::pair<std::string, std::string> cases[] = {
      {"1 3:0.5 7:1\n", "libsvm text"},
      {"1 0:3:0.5 2:7:1\n", "libffm text: read it with format=libffm"},
      {"\n# numbers\n-1 |f a b:2\n", "vw text"},
      {"1" + std::string(39, '\t') + "\n", "criteo text"},
      {"user,item,clicked\n1,2,0\n", "CSV text"},
      {"a;b\n1;2\n", "CSV text"},
      {"a\tb\n1\t2\n", "CSV text: read it with format=csv"},
      {"{\"label\": 1, \"x\": 2}\n", "JSON lines: read it with format=json"},
      {"[1, 2]\n", "JSON that is not one object per line"},
      {"{\n  \"label\": 1\n}\n", "JSON that is not one object per line"},
      {"<html>\n", "XML or HTML"},
      {"just words\n", "text"},
      {std::string("Obj\x01\0", 5), "an Avro file"},
      {"ORC and so on", "an ORC file"},
      {"PK\x03\x04 and so on", "a zip file"},
      {std::string("\0\0\x08\x03\0\0\0\x01", 8) + "\0\0\0", "an IDX file"},
      {"\xff\xd8\xff\xe0 and the rest of it", "a JPEG image"},
      {"BZh91AY&SY and so on", "bzip2 data"},
      {"PAR1 and so on and on", "a Parquet file: read it with format=table"},
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
  EXPECT_EQ(*DetectTextFormat("1 3:0.5 7:1"), FileFormat::kLibsvm);
  EXPECT_EQ(*DetectTextFormat("-1 |f a b:2"), FileFormat::kVw);
  EXPECT_EQ(*DetectTextFormat("1" + std::string(39, '\t')), FileFormat::kCriteo);
  EXPECT_FALSE(DetectTextFormat("user,item,clicked").ok());
  EXPECT_EQ(*DetectTextFormat("3:0.5 7:1"), FileFormat::kLibsvm);
  EXPECT_EQ(*DetectTextFormat("1 3:0.5 # a|b"), FileFormat::kLibsvm);
  EXPECT_EQ(*DetectTextFormat("1 0:3:0.5 7:1:1 # a|b"), FileFormat::kLibffm);
  EXPECT_EQ(*DetectTextFormat("0:3:0.5 7:1:1"), FileFormat::kLibffm);
  EXPECT_FALSE(DetectTextFormat("1 0:3:0.5 7:1").ok());
  EXPECT_EQ(*DetectTextFormat("|f a"), FileFormat::kVw);
  EXPECT_TRUE(IsBlankLine(" \t\r"));
  EXPECT_TRUE(IsBlankLine(" # a comment"));
  EXPECT_FALSE(IsBlankLine("1 3:1"));
}

TEST(FileFormat, ParquetIsATableUnlessItIsCompressed) {
  const test::TemporaryFolder folder;
  const std::string bytes = "PAR1....";
  test::WriteFile(folder / "plain", bytes);
  EXPECT_EQ(DetectFile(folder / "plain")->format, FileFormat::kTable);
  EXPECT_STREQ(FileFormatName(FileFormat::kTable), "table");
  RawBuffer packed;
  const auto gzip = MakeCompressor(Compression::kGzip, 6);
  ASSERT_TRUE(gzip.ok() && (*gzip)->Add(bytes, packed).ok() && (*gzip)->Finish(packed).ok());
  test::WriteFile(folder / "packed", {packed.data(), packed.size()});
  EXPECT_EQ(DetectFile(folder / "packed")->format, std::nullopt);
  EXPECT_EQ(DetectFile(folder / "packed")->what, "gzip of a Parquet file");
  EXPECT_EQ(DetectFile(folder / "packed")->advice, "decompress it first");
}

TEST(FileFormat, TablesAndObjectsAreToldFromOtherText) {
  const auto format = [](std::string_view text) { return DetectContent(text).format; };
  EXPECT_EQ(format("a,b\n1,2\n"), FileFormat::kCsv);
  EXPECT_EQ(format("1,2\n3,4"), FileFormat::kCsv);
  EXPECT_EQ(format("a,b\n\"1\n,\",2\n"), FileFormat::kCsv);
  EXPECT_EQ(format("\xef\xbb\xbf"
                   "a;b\r\n1;2\r\n"),
            FileFormat::kCsv);
  EXPECT_EQ(format("a|b\n1|2\n"), FileFormat::kCsv);
  EXPECT_EQ(format("user age|b\n1|2\n"), FileFormat::kCsv);
  EXPECT_EQ(format("a\tb\n1\t2\n"), FileFormat::kCsv);
  EXPECT_EQ(format("{\"a\": 1}\n{\"a\": 2}\n"), FileFormat::kJson);
  EXPECT_EQ(format("{\"a\": \"" + std::string(300000, 'x')), FileFormat::kJson);
  // VW text with commas and the same number of bars in every line.
  EXPECT_EQ(format("1 |a x,y |b z\n-1 |a x,z |b z\n"), FileFormat::kVw);
  EXPECT_EQ(format("1|a b|c\n1|a d|c\n"), FileFormat::kVw);
  EXPECT_EQ(format("1 3:0.5\n"), FileFormat::kLibsvm);
  EXPECT_EQ(format("1\t3:0.5\n0\t4:1\n"), FileFormat::kLibsvm);
  EXPECT_EQ(format("0" + std::string(39, '\t') + "\n"), FileFormat::kCriteo);
  EXPECT_EQ(format("just words\n"), std::nullopt);
  EXPECT_EQ(format("words, and\nwords\n"), std::nullopt);
}

TEST(FileFormat, ALongFirstLineIsDetectedByItsBeginning) {
  std::string line = "1";
  for (int key = 0; line.size() < (size_t{200} << 10); ++key) {
    line += " " + std::to_string(key) + ":0.5";
  }
  EXPECT_EQ(DetectContent(line).format, FileFormat::kLibsvm);
}

TEST(FileFormat, FilesAreDecompressedFirst) {
  const test::TemporaryFolder folder;
  const auto content = [&](const std::string& bytes) {
    const std::string plain = folder / "plain", packed = folder / "packed";
    test::WriteFile(plain, bytes);
    RawBuffer compressed;
    const auto gzip = MakeCompressor(Compression::kGzip, 6);
    EXPECT_TRUE(gzip.ok() && (*gzip)->Add(bytes, compressed).ok() &&
                (*gzip)->Finish(compressed).ok());
    test::WriteFile(packed, {compressed.data(), compressed.size()});
    const Result<Content> of_plain = DetectFile(plain), of_packed = DetectFile(packed);
    EXPECT_TRUE(of_plain.ok() && of_packed.ok());
    EXPECT_EQ(of_plain->format, of_packed->format);
    return *of_packed;
  };
  EXPECT_EQ(content("1 |f a\n").format, FileFormat::kVw);
  EXPECT_EQ(content("a,b\n1,2\n").format, FileFormat::kCsv);
  EXPECT_EQ(content("ORC.....").what, "gzip of an ORC file");
  EXPECT_EQ(content("").what, "");
  EXPECT_EQ(DescribeFile(folder / "absent", "vw"), "");
}

}  // namespace
}  // namespace millrace::io
