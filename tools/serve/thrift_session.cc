// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/thrift_session.h"

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>

#include <bit>
#include <chrono>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "gen-cpp/Score.h"
#include "ps/wire/handshake.h"
#include "tools/serve/request_rows.h"

namespace millrace::serve {
namespace {

using apache::thrift::protocol::TBinaryProtocolT;
using apache::thrift::transport::TMemoryBuffer;
using BinaryProtocol = TBinaryProtocolT<TMemoryBuffer>;
using Clock = std::chrono::steady_clock;

void AddRow(const rpc::Row& row, FieldList& fields) {
  for (const auto& [name, text] : row.texts) fields.AddText(name, text);
  for (const auto& [name, integer] : row.integers) fields.AddInt(name, integer);
  for (const auto& [name, number] : row.numbers) fields.AddDouble(name, number);
  for (const auto& [name, texts] : row.lists) {
    for (const std::string& text : texts) fields.AddText(name, text);
  }
  fields.EndRow();
}

// An error names the row.
Status AddRow(const rpc::Keys& row, KeyList& list) {
  const auto expected = [&](const char* what, size_t found) {
    return Invalid("row " + std::to_string(list.rows()) + ": expected " +
                   std::to_string(row.keys.size()) + " " + what + ", as many as keys, found " +
                   std::to_string(found));
  };
  const size_t before = list.keys.size();
  for (const int64_t key : row.keys) list.keys.push_back(std::bit_cast<uint64_t>(key));
  if (!row.values.empty()) {
    if (row.values.size() != row.keys.size()) return expected("values", row.values.size());
    if (!std::exchange(list.has_values, true)) list.values.assign(before, 1);
    for (const double value : row.values) list.values.push_back(static_cast<float>(value));
  } else if (list.has_values) {
    list.values.resize(list.keys.size(), 1);
  }
  if (!row.fields.empty() || list.has_fields) {
    if (row.fields.size() != row.keys.size() || (!list.has_fields && before > 0)) {
      return expected("fields", row.fields.size());
    }
    list.has_fields = true;
    for (const int16_t field : row.fields) list.fields.push_back(std::bit_cast<uint16_t>(field));
  }
  list.EndRow();
  return {};
}

// The service. One connection calls it from one thread at a time.
class Service final : public rpc::ScoreIf {
 public:
  Service(millrace_scorer* scorer, const ThriftOptions& options, Metrics& metrics)
      : scorer_(scorer), options_(options), metrics_(metrics) {}

  // The connection is closed behind the reply.
  bool refused() const { return refused_; }
  bool authenticated() const { return authenticated_ || options_.token.empty(); }

  void challenge(std::string& nonce) override {
    Result<std::string> drawn = ps::DrawNonce();
    if (!drawn.ok()) {
      rpc::Unavailable unavailable;
      unavailable.message = drawn.status().message();
      throw unavailable;
    }
    nonce = nonce_ = *drawn;
  }

  void authenticate(const std::string& proof) override {
    const std::string nonce = std::exchange(nonce_, "");
    if (nonce.empty()) Refuse("expected challenge before authenticate");
    if (!ps::IsSameProof(proof, ps::ScoreProof(options_.token, nonce))) {
      Refuse("the token is not this server's");
    }
    authenticated_ = true;
  }

  void score_rows(rpc::Scores& scores, const std::vector<rpc::Row>& rows,
                  const rpc::Output::type output) override {
    Run(scores, rows.size(), [&](millrace_score_error& error) {
      Read(rows, rows_);
      const millrace_rows view = rows_.view();
      return millrace_score_rows(scorer_, &view, output, scores.scores.data(), &counts_, &error);
    });
    CheckUnknown({&rows_});
  }

  void score_candidates(rpc::Scores& scores, const rpc::Row& context,
                        const std::vector<rpc::Row>& candidates,
                        const rpc::Output::type output) override {
    Run(scores, candidates.size(), [&](millrace_score_error& error) {
      Read({&context, 1}, context_);
      Read(candidates, rows_);
      const millrace_rows one = context_.view(), many = rows_.view();
      return millrace_score_row_candidates(scorer_, &one, &many, output, scores.scores.data(),
                                           &counts_, &error);
    });
    CheckUnknown({&context_, &rows_});
  }

  void score_keys(rpc::Scores& scores, const std::vector<rpc::Keys>& rows,
                  const rpc::Output::type output) override {
    Run(scores, rows.size(), [&](millrace_score_error& error) {
      Read(rows, keys_);
      const millrace_keys view = keys_.view();
      return millrace_score_keys(scorer_, &view, output, scores.scores.data(), &counts_, &error);
    });
  }

  void score_key_candidates(rpc::Scores& scores, const rpc::Keys& context,
                            const std::vector<rpc::Keys>& candidates,
                            const rpc::Output::type output) override {
    Run(scores, candidates.size(), [&](millrace_score_error& error) {
      Read({&context, 1}, context_keys_);
      Read(candidates, keys_);
      const millrace_keys one = context_keys_.view(), many = keys_.view();
      return millrace_score_key_candidates(scorer_, &one, &many, output, scores.scores.data(),
                                           &counts_, &error);
    });
  }

  void CountRejected() { metrics_.Count(Protocol::kThrift, 400, {}, {}); }

 private:
  // `rows` outlive the use of the fields.
  static void Read(std::span<const rpc::Row> rows, FieldList& fields) {
    fields.Clear();
    for (const rpc::Row& row : rows) AddRow(row, fields);
  }
  void Read(std::span<const rpc::Keys> rows, KeyList& keys) {
    keys.Clear();
    for (const rpc::Keys& row : rows) {
      if (const Status status = AddRow(row, keys); !status.ok()) Reject(status.message());
    }
  }

  // Runs a call of the library and measures it.
  template <typename Call>
  void Run(rpc::Scores& scores, size_t rows, const Call& call) {
    if (!authenticated()) {
      metrics_.Count(Protocol::kThrift, 401, {}, {});
      Refuse("expected challenge and authenticate first: this server has a token");
    }
    const auto begin = Clock::now();
    counts_ = {};
    scores.scores.resize(rows);
    millrace_score_error error;
    const Status status = StatusOf(call(error), error);
    if (status.ok()) {
      scores.keys = static_cast<int64_t>(counts_.keys);
      scores.unknown_keys = static_cast<int64_t>(counts_.unknown_keys);
      metrics_.Count(Protocol::kThrift, 200, Clock::now() - begin, counts_);
    } else if (status.code() == Code::kInvalid) {
      Reject(status.message());
    } else {
      metrics_.Count(Protocol::kThrift, 500, Clock::now() - begin, {});
      rpc::Unavailable unavailable;
      unavailable.message = status.message();
      throw unavailable;
    }
  }

  void CheckUnknown(std::initializer_list<const FieldList*> all) {
    if (counts_.ignored_fields == 0 || options_.unknown == UnknownFields::kIgnore) return;
    for (const FieldList* fields : all) {
      const Status status = check_.Check(scorer_, fields->view());
      if (!status.ok()) ThrowRejected(status.message());
    }
  }

  [[noreturn]] void Reject(const std::string& message) {
    CountRejected();
    ThrowRejected(message);
  }
  [[noreturn]] void Refuse(const std::string& message) {
    refused_ = true;
    ThrowRejected(message);
  }
  [[noreturn]] static void ThrowRejected(const std::string& message) {
    rpc::Rejected rejected;
    rejected.message = message;
    throw rejected;
  }

  millrace_scorer* const scorer_;
  const ThriftOptions& options_;
  Metrics& metrics_;
  bool authenticated_ = false, refused_ = false;
  std::string nonce_;  // between challenge and authenticate
  FieldList rows_, context_;
  KeyList keys_, context_keys_;
  FieldCheck check_;
  millrace_score_counts counts_ = {};
};

class ThriftSession final : public http::FrameSession {
 public:
  ThriftSession(millrace_scorer* scorer, const ThriftOptions& options, Metrics& metrics)
      : service_(std::make_shared<Service>(scorer, options, metrics)),
        processor_(service_),
        in_(std::make_shared<TMemoryBuffer>()),
        out_(std::make_shared<TMemoryBuffer>()),
        in_protocol_(std::make_shared<BinaryProtocol>(in_)),
        out_protocol_(std::make_shared<BinaryProtocol>(out_)) {
    in_protocol_->setStrict(true, true);
  }

  size_t max_message() const override {
    return service_->authenticated() ? SIZE_MAX : size_t{64} << 10;
  }

  bool Handle(std::string_view message, std::string& out) override {
    try {
      // The message is not changed.
      auto* bytes = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(message.data()));
      in_->resetBuffer(bytes, static_cast<uint32_t>(message.size()), TMemoryBuffer::OBSERVE);
      // No container can have more elements than the message has bytes.
      in_protocol_->setContainerSizeLimit(static_cast<int32_t>(message.size()));
      in_protocol_->setStringSizeLimit(static_cast<int32_t>(message.size()));
      out_->resetBuffer();
      if (!processor_.process(in_protocol_, out_protocol_, nullptr)) return false;
    } catch (const std::exception&) {  // no valid message; too little memory for it
      service_->CountRejected();
      return false;
    }
    uint8_t* reply = nullptr;
    uint32_t size = 0;
    out_->getBuffer(&reply, &size);
    if (size == 0) return !service_->refused();  // a call without a reply
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xff);
    out.append(reinterpret_cast<const char*>(reply), size);
    return !service_->refused();
  }

 private:
  std::shared_ptr<Service> service_;
  rpc::ScoreProcessor processor_;
  std::shared_ptr<TMemoryBuffer> in_, out_;
  std::shared_ptr<BinaryProtocol> in_protocol_, out_protocol_;
};

}  // namespace

std::unique_ptr<http::FrameSession> MakeThriftSession(millrace_scorer* scorer,
                                                      const ThriftOptions& options,
                                                      Metrics& metrics) {
  return std::make_unique<ThriftSession>(scorer, options, metrics);
}

}  // namespace millrace::serve
