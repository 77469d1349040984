// SPDX-License-Identifier: Apache-2.0
#include "io/record/remote_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/scripted_server.h"

namespace millrace::io {
namespace {

using test::ScriptedServer;

std::string Content(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i * i % 23);
  return text;
}

std::string Response(const std::string& status, const std::string& headers, const std::string& body,
                     size_t length) {
  return "HTTP/1.1 " + status +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(length) + "\r\n" + headers +
         "\r\n" + body;
}
std::string Response(const std::string& status, const std::string& headers,
                     const std::string& body) {
  return Response(status, headers, body, body.size());
}

// "Range: bytes=BEGIN-LAST".
std::pair<size_t, size_t> RangeOf(const std::string& request) {
  const size_t at = request.find("Range: bytes=") + 13;
  const size_t dash = request.find('-', at);
  return {std::stoul(request.substr(at, dash - at)), std::stoul(request.substr(dash + 1)) + 1};
}
std::string Part(const std::string& content, const std::string& request,
                 const std::string& etag = "\"v1\"") {
  const auto [begin, wanted] = RangeOf(request);
  const size_t end = std::min(wanted, content.size());
  return Response("206 Partial Content",
                  "ETag: " + etag + "\r\nContent-Range: bytes " + std::to_string(begin) + "-" +
                      std::to_string(end - 1) + "/" + std::to_string(content.size()) + "\r\n",
                  content.substr(begin, end - begin));
}

class RemoteFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HttpClient::Create({}).status().code() == Code::kInvalid)
      GTEST_SKIP() << "this build has no libcurl";
    Use({});
  }
  void TearDown() override { Use({}); }

  static void Use(RemoteOptions options) {
    options.first_backoff_s = 0.001;
    options.range_bytes = 1000;
    UseRemoteOptions([options]() -> Result<RemoteOptions> { return options; });
  }

  // All of the file, read in pieces of `piece` bytes.
  static Result<std::string> Read(const std::string& name, size_t piece = 700) {
    ASSIGN_OR_RETURN(const auto source, OpenRemoteFile(name));
    std::string all, bytes(piece, '\0');
    for (size_t got = piece; got == piece;) {
      RETURN_IF_ERROR(source->Read(bytes, &got));
      all.append(bytes, 0, got);
    }
    return all;
  }

  static void ExpectError(const ScriptedServer& server, const std::string& expected) {
    const Result<std::string> read = Read(server.url() + "/file");
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find(expected), std::string::npos) << read.status().message();
    EXPECT_EQ(read.status().message().find(server.url() + "/file: "), 0u);
  }

  const std::string content_ = Content(10'345);
};

TEST_F(RemoteFilesTest, RangesMakeTheFile) {
  const ScriptedServer server(
      [&](const std::string& request, size_t) { return Part(content_, request); });
  for (const size_t piece : {1, 999, 1000, 20'000}) {
    EXPECT_EQ(*Read(server.url() + "/file", piece), content_) << piece;
  }
}

TEST_F(RemoteFilesTest, RequestsThatFailAreRepeated) {
  const ScriptedServer server([&](const std::string& request, size_t number) -> std::string {
    const std::string whole = Part(content_, request);
    switch (number % 5) {
      case 1:
        return Response("503 Slow Down", "", "<Error><Code>SlowDown</Code></Error>");
      case 2:
        return "";
      case 3:
        return whole.substr(0, whole.size() - 1);
      default:
        return whole;
    }
  });
  const auto read = Read(server.url() + "/file");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, content_);
}

TEST_F(RemoteFilesTest, ServerMaySendLessThanARange) {
  const ScriptedServer server([&](const std::string& request, size_t) {
    const auto [begin, end] = RangeOf(request);
    const std::string few = "Range: bytes=" + std::to_string(begin) + "-" +
                            std::to_string(std::min(end, begin + 70) - 1);
    return Part(content_, few);
  });
  EXPECT_EQ(*Read(server.url() + "/file"), content_);
}

TEST_F(RemoteFilesTest, FailureThatStaysIsAnError) {
  const ScriptedServer server([](const std::string&, size_t) {
    return Response("500 Oops", "", "<Error><Code>InternalError</Code></Error>");
  });
  ExpectError(server, "HTTP 500: InternalError (attempt 8 of 8)");
}

TEST_F(RemoteFilesTest, MissingFileIsNotFound) {
  const ScriptedServer server(
      [](const std::string&, size_t) { return Response("404 Not Found", "", "no"); });
  ExpectError(server, "no such file (HTTP 404)");
  EXPECT_EQ(Read(server.url() + "/file").status().code(), Code::kNotFound);
}

TEST_F(RemoteFilesTest, ChangedETagIsAnError) {
  const ScriptedServer server([&](const std::string& request, size_t number) {
    return Part(content_, request, number < 4 ? "\"v1\"" : "\"v2\"");
  });
  ExpectError(server, "the file has changed since it was opened: ETag: expected \"v1\"");
}

TEST_F(RemoteFilesTest, FailedPreconditionIsAChange) {
  const ScriptedServer server([&](const std::string& request, size_t) {
    return request.find("If-Match: \"v1\"") == std::string::npos
               ? Part(content_, request)
               : Response("412 Precondition Failed", "", "");
  });
  ExpectError(server, "the file has changed since it was opened (HTTP 412)");
}

TEST_F(RemoteFilesTest, WrongRangesAreErrors) {
  for (const char* range : {"bytes 7-9/10345", "bytes 0-9/99", "bytes 5-1/10345", "nonsense"}) {
    const ScriptedServer server([&](const std::string& request, size_t number) {
      if (number == 0) return Part(content_, request);
      return Response("206 Partial Content",
                      std::string("ETag: \"v1\"\r\nContent-Range: ") + range + "\r\n", "abc");
    });
    ExpectError(server, "expected");
  }
}

TEST_F(RemoteFilesTest, LongerBodyIsAnError) {
  const ScriptedServer server([&](const std::string& request, size_t number) {
    if (number == 0) return Part(content_, request);
    return Response("206 Partial Content", "ETag: \"v1\"\r\nContent-Range: bytes 0-9/10345\r\n",
                    std::string(100'000, 'x'));
  });
  ExpectError(server, "body: expected the bytes of its Content-Range, found more");
}

TEST_F(RemoteFilesTest, EndlessHeadersAreAnError) {
  const ScriptedServer server([](const std::string&, size_t) {
    std::string reply = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 100'000; ++i) reply += "X-Header-" + std::to_string(i) + ": value\r\n";
    return reply;
  });
  ExpectError(server, "bytes of headers, found more");
}

TEST_F(RemoteFilesTest, ServerThatSendsNothingMoreTimesOut) {
  RemoteOptions options = {.max_attempts = 1, .stall_s = 1};
  Use(options);
  const ScriptedServer server([](const std::string&, size_t) {
    return std::string("HTTP/1.1 200 OK\r\nX-Slow: ") + ScriptedServer::kHold;
  });
  ExpectError(server, "too slow");
}

TEST_F(RemoteFilesTest, FileWithoutRangesIsAStream) {
  const ScriptedServer server(
      [&](const std::string&, size_t) { return Response("200 OK", "", content_); });
  EXPECT_EQ(*Read(server.url() + "/file"), content_);
}

TEST_F(RemoteFilesTest, BrokenStreamStartsAgain) {
  const ScriptedServer server([&](const std::string&, size_t number) {
    const size_t sent = number < 4 ? content_.size() * number / 5 : content_.size();
    return Response("200 OK", "", content_.substr(0, sent), content_.size());
  });
  EXPECT_EQ(*Read(server.url() + "/file"), content_);
}

TEST_F(RemoteFilesTest, BrokenStreamMustBeginWithTheSameBytes) {
  const ScriptedServer server([&](const std::string&, size_t number) {
    std::string body = content_;
    if (number == 2) body[17] ^= 1;
    if (number < 2) body.resize(5000);
    return Response("200 OK", "", body, content_.size());
  });
  ExpectError(server, "after a lost connection its first 5000 bytes differ");
}

TEST_F(RemoteFilesTest, StreamWithoutAVisibleEndIsAnError) {
  const ScriptedServer server([&](const std::string&, size_t) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content_;
  });
  ExpectError(server, "a Content-Length or Transfer-Encoding: chunked");
}

TEST_F(RemoteFilesTest, RedirectsAreFollowedButNotForever) {
  const ScriptedServer server([&](const std::string& request, size_t) {
    if (request.starts_with("GET /other")) return Part(content_, request);
    const bool loops = request.starts_with("GET /loop");
    return Response("302 Found", std::string("Location: ") + (loops ? "/loop" : "/other") + "\r\n",
                    "");
  });
  EXPECT_EQ(*Read(server.url() + "/file"), content_);
  EXPECT_FALSE(Read(server.url() + "/loop").ok());
}

TEST_F(RemoteFilesTest, EmptyFile) {
  const ScriptedServer server([](const std::string&, size_t) {
    return Response("416 Range Not Satisfiable", "Content-Range: bytes */0\r\n", "");
  });
  EXPECT_EQ(*Read(server.url() + "/file"), "");
}

TEST_F(RemoteFilesTest, ListMustEnd) {
  const ScriptedServer server([](const std::string&, size_t) {
    return Response("200 OK", "",
                    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
                    "</NextContinuationToken></ListBucketResult>");
  });
  Use({.endpoint = server.url()});
  EXPECT_EQ(ExpandRemote("s3://bucket/a*").status().message(),
            "s3://bucket/a*: list of objects: the server repeats a page");
}

TEST_F(RemoteFilesTest, PatternsMatchLikeThoseOfLocalFiles) {
  const ScriptedServer server([](const std::string&, size_t) {
    std::string xml = "<ListBucketResult>";
    for (const char* key : {"d/b2", "d/b1", "d/bb/1", "d/", "d/.b1", "d/b[1]"}) {
      xml += std::string("<Contents><Key>") + key + "</Key><ETag>e</ETag><Size>1</Size></Contents>";
    }
    return Response("200 OK", "", xml + "</ListBucketResult>");
  });
  Use({.endpoint = server.url()});
  using Names = std::vector<std::string>;
  EXPECT_EQ(*ExpandRemote("s3://c/d/*"), (Names{"s3://c/d/b1", "s3://c/d/b2", "s3://c/d/b[1]"}));
  EXPECT_EQ(*ExpandRemote("s3://c/d/b{2,1}"), (Names{"s3://c/d/b2", "s3://c/d/b1"}));
  EXPECT_EQ(*ExpandRemote("s3://c/d/b[1]"), (Names{"s3://c/d/b[1]"}));
  EXPECT_EQ(*ExpandRemote("s3://c/*/b?"), (Names{"s3://c/d/b1", "s3://c/d/b2"}));
  EXPECT_EQ(ExpandRemote("s3://c/x*").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace millrace::io
