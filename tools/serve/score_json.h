// SPDX-License-Identifier: Apache-2.0
// The JSON of POST /v1/score. docs/serving.md describes it for users.
//
//   {"rows": [{"site": "news", "age": 31}, {"site": "shop"}]}
//   {"rows": {"site": ["news", "shop"], "age": [31, null]}}       the same by column
//   {"context": {"user": "u1"}, "candidates": [{"ad": 7}, {"ad": 9}]}
//   {"context": {"user": "u1"}, "candidates": {"ad": [7, 9]}}
//   {"keys": [[3, 5], [8]], "values": [[1, 0.5], [2]]}
//   {"context_keys": [3, 5], "candidate_keys": [[8], [9, 10]]}
//
// A value of a row is a text, a number, true, false, null (missing) or an array of these, as in
// io/text/json_columns.h; an object is its members with names like "user.age".
//
// The response: {"scores": [0.5, 0.25], "keys": 4, "unknown_keys": 0}
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "millrace/score.h"

namespace millrace::serve {

enum class UnknownFields { kError, kIgnore };

// "0.25" as millrace-predict prints it: a probability with nine digits, a margin with the fewest
// that parse to the same float. NaN and infinities are strings, as JsonWriter has them.
void AppendScore(double score, int output, std::string& out);

// Names the fields of a request that the model does not know. Not thread-safe.
class FieldCheck {
 public:
  // kInvalid if a row has a field whose name the feature spec of the model does not have.
  Status Check(millrace_scorer* scorer, const millrace_rows& rows);

 private:
  std::string digest_;                // of the model
  std::vector<std::string> columns_;  // of its spec, sorted
};

// An error code of the library as a status.
Status StatusOf(int code, const millrace_score_error& error);

// Not thread-safe: use one per thread, which keeps its memory.
class JsonScorer {
 public:
  JsonScorer();
  ~JsonScorer();

  // Replaces `response`. kInvalid: the request is wrong; other errors are the server's. `body` gets
  // room behind its end. `counts` are those of the rows that were scored.
  Status Score(millrace_scorer* scorer, UnknownFields unknown, std::string& body,
               std::string& response, millrace_score_counts& counts);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::serve
