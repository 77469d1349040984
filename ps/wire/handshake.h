// SPDX-License-Identifier: Apache-2.0
// How a worker and a server prove to each other that they know the job's token, without sending it.
//
//   worker -> server   hello(worker nonce)
//   server -> worker   server nonce
//   worker -> server   join(request, proof)   proof = HMAC-SHA256(token, "join request" 0 nonces
//   request) server -> worker   reply, proof           proof = HMAC-SHA256(token, "join reply" 0
//   nonces reply)
//
// Each side draws its nonce for one join, so an old proof is worth nothing. The proofs cover all
// fields of request and reply: protocol version, worker, process, configuration. The words in front
// keep a proof of one side from passing for one of the other.
#pragma once

#include <string>

#include "gen-cpp/ParameterServer.h"
#include "io/base/status.h"

namespace millrace::ps {

constexpr size_t kNonceBytes = 32;

struct Nonces {
  std::string worker, server;
};

Result<std::string> DrawNonce();

// The field `proof` of `request` and `reply` is not part of their proof.
std::string RequestProof(const std::string& token, const Nonces& nonces,
                         const rpc::JoinRequest& request);
std::string ReplyProof(const std::string& token, const Nonces& nonces, const rpc::JoinReply& reply);

// The proof of a client of millrace-serve: HMAC-SHA256(token, "score" 0 nonce).
std::string ScoreProof(const std::string& token, const std::string& nonce);

// Takes the same time wherever the difference is.
bool IsSameProof(const std::string& a, const std::string& b);

}  // namespace millrace::ps
