// SPDX-License-Identifier: Apache-2.0
#include "io/record/s3.h"

#include <gtest/gtest.h>

#include "io/record/remote_files.h"

namespace millrace::io {
namespace {

TEST(S3Name, HasABucketAndAKey) {
  const auto name = ParseS3Name("s3://my.bucket-1/a/b c.gz");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->bucket, "my.bucket-1");
  EXPECT_EQ(name->key, "a/b c.gz");
  for (const char* bad : {"s3://", "s3:///key", "s3://bucket", "s3://bucket/", "s3://a@b/key",
                          "s3://host:80/key", "s3://a?b/key", "https://x/y"}) {
    EXPECT_EQ(ParseS3Name(bad).status().code(), Code::kInvalid) << bad;
  }
}

TEST(S3Url, HasTheBucketInTheHostOrInThePath) {
  const S3Name name = {"bucket", "a b/c+d%\xc3\xa9~"};
  EXPECT_EQ(S3ObjectUrl(name, {.region = "eu-west-1"}),
            "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c%2Bd%25%C3%A9~");
  EXPECT_EQ(S3ObjectUrl({"my.bucket", "k"}, {.region = "eu-west-1"}),
            "https://s3.eu-west-1.amazonaws.com/my.bucket/k");
  RemoteOptions options = {.endpoint = "http://127.0.0.1:9000"};
  EXPECT_EQ(S3ObjectUrl({"bucket", "k"}, options), "http://127.0.0.1:9000/bucket/k");
  options.path_style = false;
  EXPECT_EQ(S3ObjectUrl({"bucket", "k"}, options), "http://bucket.127.0.0.1:9000/k");
  options.path_style = true;
  EXPECT_EQ(S3ListUrl({"bucket", "a/"}, "t=/", options),
            "http://127.0.0.1:9000/bucket/?continuation-token=t%3D%2F&encoding-type=url&"
            "list-type=2&max-keys=1000&prefix=a%2F");
}

std::string Page(const std::string& inner) {
  return "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><Name>b</Name>" + inner +
         "</ListBucketResult>";
}
std::string Contents(const std::string& key) {
  return "<Contents><Key>" + key +
         "</Key><LastModified>2026</LastModified><ETag>&quot;e1&quot;</ETag><Size>7</Size>"
         "<Owner><ID>Key</ID></Owner></Contents>";
}

TEST(S3Page, HasObjectsAndTheNextToken) {
  const auto page = ParseS3Page(Page("<IsTruncated>true</IsTruncated>" + Contents("a&amp;&#x62;") +
                                     Contents("&lt;&#233;") +
                                     "<NextContinuationToken>t+/=</NextContinuationToken>"));
  ASSERT_TRUE(page.ok()) << page.status().message();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "a&b");
  EXPECT_EQ(page->objects[1].key, "<\xc3\xa9");
  EXPECT_EQ(page->objects[0].bytes, 7);
  EXPECT_EQ(page->objects[0].etag, "\"e1\"");
  EXPECT_EQ(page->next_token, "t+/=");
}

TEST(S3Page, KeysMayBeEncoded) {
  const auto page = ParseS3Page(Page("<EncodingType>url</EncodingType>" + Contents("a+b%2Bc%0a%")));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->objects[0].key, "a b+c\n%");
}

TEST(S3Page, EmptyListIsAPage) {
  const auto page = ParseS3Page(Page("<Prefix/><IsTruncated>false</IsTruncated>"));
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->objects.empty());
}

// Cut anywhere, a page is an error: a shorter list would be other data.
TEST(S3Page, TruncatedPageIsAnError) {
  const std::string whole = Page(Contents("a") + Contents("b"));
  ASSERT_TRUE(ParseS3Page(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseS3Page(whole.substr(0, size)).ok()) << size;
  }
}

TEST(S3Page, BrokenPagesAreErrors) {
  for (const std::string& bad :
       {std::string("<html></html>"), Page("<IsTruncated>true</IsTruncated>"),
        Page("<Contents><Key>a</Key></Contents>"), Page("<Contents><Size>1</Size></Contents>"),
        Page("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        Page("<Contents><Key>a&none;</Key><Size>1</Size></Contents>"),
        Page("<Contents><Key>a<b/></Key><Size>1</Size></Contents>")}) {
    EXPECT_FALSE(ParseS3Page(bad).ok()) << bad;
  }
}

TEST(S3Error, IsDescribedInShort) {
  EXPECT_EQ(DescribeS3Error("<Error><Code>NoSuchKey</Code><Message>No\x1b key</Message></Error>"),
            ": NoSuchKey: No\\x1b key");
  EXPECT_EQ(DescribeS3Error("<html>"), "");
}

TEST(ContentRange, HasBeginEndAndTotal) {
  const auto range = ParseContentRange("bytes 5-9/100");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->begin, 5);
  EXPECT_EQ(range->end, 10);
  EXPECT_EQ(range->total, 100);
  EXPECT_EQ(ParseContentRange("bytes 0-0/*")->total, -1);
  for (const char* bad : {"", "bytes", "bytes 5-4/9", "bytes 0-9/9", "bytes -1-3/9", "bytes 1-2",
                          "bytes 1-2/3x", "bytes 0-9223372036854775807/*", "items 0-1/2"}) {
    EXPECT_FALSE(ParseContentRange(bad).ok()) << bad;
  }
}

TEST(HideQueries, QueriesOfUrlsAreLeftOut) {
  EXPECT_EQ(HideQueries("a?b,https://h/p?X-Secret=1,http://g?q x?y"),
            "a?b,https://h/p?...,http://g?... x?y");
  EXPECT_EQ(HideQueries("s3://b/k?,httpx"), "s3://b/k?,httpx");
}

TEST(ExpandRemote, NamesOfWebServersHaveNoSecrets) {
  const auto files = ExpandRemote("https://h/{a,b}?key=1");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (std::vector<std::string>{"https://h/a?...", "https://h/b?..."}));
  EXPECT_EQ(ExpandRemote("https://h/a?key=2")->at(0), "https://h/a?...(2)");
  EXPECT_EQ(ExpandRemote("https://u:p@h/a").status().code(), Code::kInvalid);
  EXPECT_EQ(ExpandRemote("https://h/*").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace millrace::io
