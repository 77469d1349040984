// SPDX-License-Identifier: Apache-2.0
// Names, addresses and replies of S3 and the stores that speak its protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/record/remote_options.h"

namespace millrace::io {

struct S3Name {
  std::string bucket;
  std::string key;  // not encoded; may be empty
};
// Parses "s3://BUCKET/KEY".
Result<S3Name> ParseS3Name(std::string_view name);

std::string S3ObjectUrl(const S3Name& name, const RemoteOptions& options);
// The next page (ListObjectsV2) of the keys that begin with name.key. `token` is empty for the
// first one.
std::string S3ListUrl(const S3Name& name, const std::string& token, const RemoteOptions& options);

struct S3Object {
  std::string key;
  int64_t bytes = 0;
  std::string etag;
};
struct S3Page {
  std::vector<S3Object> objects;
  std::string next_token;  // empty: the last page
};
// Parses the reply to S3ListUrl.
Result<S3Page> ParseS3Page(std::string_view xml);

// ": NoSuchKey: The specified key does not exist." for the body of an error of S3, in short and
// printable; else empty.
std::string DescribeS3Error(std::string_view body);

// Percent-encodes all bytes but letters, digits, "-._~" and those of `keep`.
std::string PercentEncode(std::string_view text, std::string_view keep);

}  // namespace millrace::io
