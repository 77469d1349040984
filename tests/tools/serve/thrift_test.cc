// SPDX-License-Identifier: Apache-2.0
// The Thrift calls over a socket, with the client that Thrift generates.
#include <gtest/gtest.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <bit>

#include "gen-cpp/Score.h"
#include "ps/wire/handshake.h"
#include "tests/sparse/score/serving_fixture.h"
#include "tools/serve/thrift_session.h"

namespace millrace::serve {
namespace {

using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::transport::TFramedTransport;
using apache::thrift::transport::TSocket;
using apache::thrift::transport::TTransportException;

constexpr char kSpec[] = R"({"hash_bits": 10, "fields": [
  {"name": "user", "rule": "hash"}, {"name": "tags", "rule": "hash"},
  {"name": "age", "rule": "bucket", "boundaries": [20, 40]},
  {"name": "user x age", "rule": "cross", "of": ["user", "age"]}]})";

class ThriftTest : public testing::Test {
 protected:
  ThriftTest() {
    const auto spec = io::ParseFeatureSpec(kSpec, "spec");
    EXPECT_TRUE(spec.ok()) << spec.status().message();
    const auto plan = io::EncoderPlan::Make(*spec);
    EXPECT_TRUE(plan.ok());
    io::RowFormat input = {.format = io::InputFormat::kJson};
    input.rows.features = *plan;
    input.rows.num_features = model_.num_features = spec->num_features();
    model_.input = input;
    test::MakeModel(model_, 1, folder_ / "model.serving");
    scorer_.emplace(folder_ / "model.serving");
    Start({});
  }

  void Start(ThriftOptions options) {
    client_.reset();
    server_.reset();
    options_ = options;
    auto server = http::Server::Start(
        {.limits = {.connections = 100, .body_bytes = 1 << 20, .idle_ms = 20000},
         .frames = [this] { return MakeThriftSession(scorer_->get(), options_, metrics_); }},
        [](http::Request&, http::Response&) {});
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
    Connect();
  }

  void Connect() {
    socket_ = std::make_shared<TSocket>("127.0.0.1", server_->port());
    socket_->setRecvTimeout(20000);
    transport_ = std::make_shared<TFramedTransport>(socket_);
    client_ = std::make_unique<rpc::ScoreClient>(std::make_shared<TBinaryProtocol>(transport_));
    transport_->open();
  }

  // Row r of `rows` as a struct.
  static rpc::Keys RowOf(const test::KeyRowsOf& rows, size_t r) {
    rpc::Keys row;
    for (uint64_t i = rows.row_begin[r]; i < rows.row_begin[r + 1]; ++i) {
      row.keys.push_back(std::bit_cast<int64_t>(rows.keys[i]));
      if (!rows.values.empty()) row.values.push_back(rows.values[i]);
    }
    return row;
  }

  std::vector<double> ScoresOfJson(const std::string& lines) {
    std::vector<double> scores(100);
    size_t rows = 0;
    millrace_score_error error;
    EXPECT_EQ(
        millrace_score_json(scorer_->get(), lines.data(), lines.size(), MILLRACE_SCORE_PROBABILITY,
                            scores.data(), scores.size(), &rows, nullptr, &error),
        0)
        << error.message;
    scores.resize(rows);
    return scores;
  }

  test::TemporaryFolder folder_;
  test::ModelOptions model_;
  std::optional<test::OpenScorer> scorer_;
  Metrics metrics_;
  ThriftOptions options_;
  std::unique_ptr<http::Server> server_;
  std::shared_ptr<TSocket> socket_;
  std::shared_ptr<TFramedTransport> transport_;
  std::unique_ptr<rpc::ScoreClient> client_;
};

TEST_F(ThriftTest, KeysHaveTheScoresOfTheLibrary) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const test::KeyRowsOf rows = test::RandomRows(model_, seed);
    std::vector<rpc::Keys> request;
    for (size_t r = 0; r + 1 < rows.row_begin.size(); ++r) request.push_back(RowOf(rows, r));
    for (const auto output : {rpc::Output::PROBABILITY, rpc::Output::MARGIN}) {
      rpc::Scores scores;
      client_->score_keys(scores, request, output);
      EXPECT_EQ(scores.scores, test::ScoresOf(scorer_->get(), rows, output)) << seed;
      EXPECT_EQ(scores.keys, static_cast<int64_t>(rows.keys.size()));
    }
    rpc::Keys context = RowOf(rows, 0);
    std::vector<rpc::Keys> joined;
    for (rpc::Keys row : request) {
      row.keys.insert(row.keys.begin(), context.keys.begin(), context.keys.end());
      row.values.insert(row.values.begin(), context.values.begin(), context.values.end());
      joined.push_back(row);
    }
    rpc::Scores expected, scores;
    client_->score_keys(expected, joined, rpc::Output::PROBABILITY);
    client_->score_key_candidates(scores, context, request, rpc::Output::PROBABILITY);
    EXPECT_EQ(scores.scores, expected.scores) << seed;
  }
}

TEST_F(ThriftTest, NamedFieldsHaveTheScoresOfJson) {
  rpc::Row context, a, b;
  context.texts["user"] = "u1";
  context.lists["tags"] = {"x", "y"};
  a.integers["age"] = 31;
  b.numbers["age"] = 19.5;
  b.texts["user"] = "u2";
  const std::vector<double> expected =
      ScoresOfJson(R"({"user": "u1", "tags": ["x", "y"], "age": 31})"
                   "\n"
                   R"({"user": "u2", "tags": ["x", "y"], "age": 19.5})");
  rpc::Scores scores;
  client_->score_candidates(scores, context, {a, b}, rpc::Output::PROBABILITY);
  EXPECT_EQ(scores.scores, expected);
  a.texts = context.texts;
  a.lists = context.lists;
  client_->score_rows(scores, {a}, rpc::Output::PROBABILITY);
  ASSERT_EQ(scores.scores.size(), 1);
  EXPECT_EQ(scores.scores[0], expected[0]);
  EXPECT_NE(expected[0], expected[1]);
}

TEST_F(ThriftTest, RejectedCallsNameTheCauseAndTheConnectionGoesOn) {
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const rpc::Rejected& rejected) {
      return rejected.message;
    }
    return "";
  };
  rpc::Scores scores;
  rpc::Keys keys;
  keys.keys = {1, 2};
  keys.values = {1};
  EXPECT_EQ(message([&] { client_->score_keys(scores, {keys}, rpc::Output::MARGIN); }),
            "row 0: expected 2 values, as many as keys, found 1");
  keys.values = {};
  EXPECT_NE(
      message([&] { client_->score_keys(scores, {keys}, static_cast<rpc::Output::type>(7)); }), "");
  rpc::Row row;
  row.texts["usr"] = "u1";
  EXPECT_EQ(message([&] { client_->score_rows(scores, {row}, rpc::Output::MARGIN); }),
            "'usr' is no field of the model");
  client_->score_keys(scores, {keys}, rpc::Output::MARGIN);
  EXPECT_EQ(scores.scores.size(), 1);
}

TEST_F(ThriftTest, PipelinedCallsAreAnsweredInOrder) {
  const test::KeyRowsOf rows = test::RandomRows(model_, 5);
  const std::vector<double> expected =
      test::ScoresOf(scorer_->get(), rows, MILLRACE_SCORE_PROBABILITY);
  for (size_t r = 0; r < expected.size(); ++r) {
    client_->send_score_keys({RowOf(rows, r)}, rpc::Output::PROBABILITY);
  }
  for (size_t r = 0; r < expected.size(); ++r) {
    rpc::Scores scores;
    client_->recv_score_keys(scores);
    EXPECT_EQ(scores.scores, std::vector<double>{expected[r]}) << r;
  }
}

TEST_F(ThriftTest, OnlyThoseWhoKnowTheTokenAreServed) {
  Start({.token = "secret"});
  rpc::Scores scores;
  const auto call = [&] { client_->score_keys(scores, {rpc::Keys()}, rpc::Output::MARGIN); };
  EXPECT_THROW(call(), rpc::Rejected);
  EXPECT_THROW(call(), TTransportException);  // the connection is closed
  Connect();
  EXPECT_THROW(client_->authenticate(std::string(32, 'x')), rpc::Rejected);
  Connect();
  std::string nonce, second;
  client_->challenge(nonce);
  EXPECT_THROW(client_->authenticate(ps::ScoreProof("other", nonce)), rpc::Rejected);
  Connect();
  client_->challenge(second);
  EXPECT_EQ(second.size(), ps::kNonceBytes);
  EXPECT_NE(second, nonce);
  // An old proof is worth nothing.
  EXPECT_THROW(client_->authenticate(ps::ScoreProof("secret", nonce)), rpc::Rejected);
  Connect();
  client_->challenge(nonce);
  client_->authenticate(ps::ScoreProof("secret", nonce));
  call();
  EXPECT_EQ(scores.scores.size(), 1);
}

TEST_F(ThriftTest, MessagesAreSmallBeforeTheToken) {
  Start({.token = "secret"});
  EXPECT_THROW(client_->authenticate(std::string(100000, 'x')), TTransportException);
}

TEST_F(ThriftTest, BrokenMessagesCloseTheirConnectionOnly) {
  for (const std::string& message :
       {std::string("no thrift at all"), std::string("\x80\x01\0\x01\0\0\0\xff", 8),
        std::string("\x80\x01\0\x01\x7f\xff\xff\xff", 8)}) {
    const auto session = MakeThriftSession(scorer_->get(), options_, metrics_);
    std::string out;
    EXPECT_FALSE(session->Handle(message, out));
  }
  rpc::Scores scores;
  client_->score_keys(scores, {rpc::Keys()}, rpc::Output::MARGIN);
  EXPECT_EQ(scores.scores.size(), 1);
}

}  // namespace
}  // namespace millrace::serve
