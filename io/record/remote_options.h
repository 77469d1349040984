// SPDX-License-Identifier: Apache-2.0
// How remote files (s3://, https://, http://) are reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace millrace::io {

// Without a key, requests are anonymous.
struct S3Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token = {};
};

struct RemoteOptions {
  // s3://
  S3Credentials credentials = {};
  std::string region = "us-east-1";
  std::string endpoint = {};  // "https://HOST[:PORT]"; empty: that of AWS in `region`
  // With an endpoint: ENDPOINT/BUCKET/KEY, else BUCKET.ENDPOINT/KEY.
  bool path_style = true;

  std::string ca_file = {};  // PEM certificates to trust; empty: those of the system

  // A request is repeated after an answer of 5xx, 429 or 408, a lost connection, a timeout or a
  // body that is too short. It waits first_backoff_s, then twice as long each time, with jitter.
  int max_attempts = 8;  // without any progress
  double first_backoff_s = 0.1;
  double max_backoff_s = 10;
  int connect_timeout_s = 10;
  // An attempt ends when fewer than 1000 bytes a second arrive for this long.
  int stall_s = 30;

  // A file is read as ranges, several at the same time. One reader holds at most `ranges_ahead`
  // ranges of `range_bytes`.
  size_t range_bytes = 4 << 20;
  size_t ranges_ahead = 3;

  // If set: called, on a thread of its own, when a request has failed several times.
  std::function<void(const std::string&)> on_note = nullptr;
};

}  // namespace millrace::io
