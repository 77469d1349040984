// SPDX-License-Identifier: Apache-2.0
// Requests of millrace-serve: no bytes crash it, and nothing of a request shows in the next. The
// first byte tells JSON (j) from a Thrift message.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/features/feature_spec.h"
#include "io/rows/row_format.h"
#include "sparse/score/serving_writer.h"
#include "tools/serve/score_json.h"
#include "tools/serve/thrift_session.h"
#include "trainer/model/model.h"

namespace millrace {
namespace {

constexpr uint64_t kFeatures = (1 << 8) + 3;
constexpr char kSpec[] = R"({"hash_bits": 8, "fields": [
  {"name": "a", "rule": "hash"}, {"name": "b.c", "rule": "bucket", "boundaries": [1, 2]},
  {"name": "a x b.c", "rule": "cross", "of": ["a", "b.c"]}]})";

// A model with weights for half of the keys.
Status WriteModel(const std::string& path) {
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, io::ParseFeatureSpec(kSpec, "spec"));
  io::RowFormat rows = {.format = io::InputFormat::kJson};
  ASSIGN_OR_RETURN(rows.rows.features, io::EncoderPlan::Make(spec));
  rows.rows.num_features = kFeatures;
  CHECK(spec.num_features() == kFeatures);
  io::StateFields fields;
  trainer::ModelInfo info = {.num_features = kFeatures, .rule = "sgd"};
  info.input = rows;
  trainer::AddModelInfo(info, fields);
  ASSIGN_OR_RETURN(auto writer,
                   score::ServingWriter::Create(
                       path, score::DenseShape(kFeatures, 1, score::WeightsType::kF32), fields));
  for (uint64_t key = 0; key < kFeatures; key += 2) {
    const float weight = static_cast<float>(key) / 100;
    RETURN_IF_ERROR(writer.Add(key, {&weight, 1}));
  }
  const float intercept = -1;
  RETURN_IF_ERROR(writer.Add(io::kInterceptKey, {&intercept, 1}));
  return writer.Finish();
}

millrace_scorer* OpenScorer() {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("fuzz-score-" + std::to_string(::getpid()) + ".serving"))
                               .string();
  const Status written = WriteModel(path);
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", written.message().c_str());
    std::abort();
  }
  millrace_scorer* scorer = nullptr;
  millrace_score_error error;
  const int code = millrace_score_open(path.c_str(), 0, &scorer, &error);
  std::filesystem::remove(path);
  if (code != MILLRACE_SCORE_OK) {
    std::fprintf(stderr, "%s\n", error.message);
    std::abort();
  }
  return scorer;
}

// The response, or "error: ...".
std::string Answer(serve::JsonScorer& json, millrace_scorer* scorer, std::string body) {
  std::string response;
  millrace_score_counts counts;
  const Status status = json.Score(scorer, serve::UnknownFields::kError, body, response, counts);
  if (!status.ok()) {
    CHECK(status.code() == Code::kInvalid);
    return "error: " + status.message();
  }
  CHECK(response.starts_with("{\"scores\":["));
  return response;
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  static millrace_scorer* const scorer = OpenScorer();
  static serve::JsonScorer kept;
  static serve::Metrics metrics;
  static const serve::ThriftOptions options;
  static const auto session = serve::MakeThriftSession(scorer, options, metrics);
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'j') {
    serve::JsonScorer fresh;
    CHECK(Answer(kept, scorer, input) == Answer(fresh, scorer, input));
    return 0;
  }
  // Challenges and authentications of earlier inputs may change what this session replies.
  std::string reply, again;
  session->Handle(input, reply);
  reply.clear();
  const bool goes_on = serve::MakeThriftSession(scorer, options, metrics)->Handle(input, reply);
  CHECK(serve::MakeThriftSession(scorer, options, metrics)->Handle(input, again) == goes_on);
  CHECK(reply.size() == again.size());  // a challenge is a new one for each call
  return 0;
}
