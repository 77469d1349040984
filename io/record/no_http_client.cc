// SPDX-License-Identifier: Apache-2.0
// Instead of http_client.cc in a build without libcurl.
#include "io/record/http_client.h"

namespace millrace::io {

void PrepareHttp() {}

Result<std::unique_ptr<HttpClient>> HttpClient::Create(const RemoteOptions&) {
  return Status(Code::kInvalid,
                "this build reads no remote files: install libcurl (Debian: "
                "libcurl4-openssl-dev) and build it again");
}

}  // namespace millrace::io
