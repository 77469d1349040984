// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/handshake.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>

#include <memory>
#include <new>
#include <string_view>

namespace millrace::ps {
namespace {

std::string Mac(const std::string& token, const std::string& bytes) {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!::HMAC(::EVP_sha256(), token.data(), static_cast<int>(token.size()), data, bytes.size(), mac,
              &size)) {
    throw std::bad_alloc();  // the only cause
  }
  return {reinterpret_cast<const char*>(mac), size};
}

// `label` ends with its zero byte, and nonces have a fixed size: no two inputs give the same bytes.
template <typename Message>
std::string Proof(const std::string& token, std::string_view label, const Nonces& nonces,
                  Message message) {
  message.proof.clear();
  auto buffer = std::make_shared<apache::thrift::transport::TMemoryBuffer>();
  apache::thrift::protocol::TBinaryProtocol out(buffer);
  message.write(&out);
  return Mac(token,
             std::string(label) + nonces.worker + nonces.server + buffer->getBufferAsString());
}

}  // namespace

Result<std::string> DrawNonce() {
  std::string nonce(kNonceBytes, '\0');
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    return IoError("no random bytes for a nonce", errno);
  }
  return nonce;
}

std::string RequestProof(const std::string& token, const Nonces& nonces,
                         const rpc::JoinRequest& request) {
  return Proof(token, std::string_view("join request\0", 13), nonces, request);
}

std::string ReplyProof(const std::string& token, const Nonces& nonces,
                       const rpc::JoinReply& reply) {
  return Proof(token, std::string_view("join reply\0", 11), nonces, reply);
}

std::string ScoreProof(const std::string& token, const std::string& nonce) {
  return Mac(token, std::string(std::string_view("score\0", 6)) + nonce);
}

bool IsSameProof(const std::string& a, const std::string& b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace millrace::ps
