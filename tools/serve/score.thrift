// SPDX-License-Identifier: Apache-2.0
// Scores over Thrift: the binary protocol in frames (TFramedTransport), on the port of HTTP.
// Calls may be pipelined; replies come in the order of the calls.

namespace cpp millrace.serve.rpc
namespace py millrace_serve
namespace go millrace_serve

enum Output {
  PROBABILITY = 0,
  MARGIN = 1,
}

// A row of named fields, as it was before the training's feature spec made keys of it. A name is in
// one of the maps only.
struct Row {
  1: map<string, string> texts,
  2: map<string, i64> integers,
  3: map<string, double> numbers,
  4: map<string, list<string>> lists,  // fields with several values
}

struct Keys {
  1: list<i64> keys,       // the bits of 64-bit keys
  2: list<double> values,  // empty: all are 1
  3: list<i16> fields,     // of each key, for a field-aware model
}

struct Scores {
  1: list<double> scores,
  2: i64 keys,
  3: i64 unknown_keys,  // that have no weight in the model
}

// The request is wrong. The connection goes on.
exception Rejected {
  1: string message,
}

// This server cannot serve the call.
exception Unavailable {
  1: string message,
}

service Score {
  // If the server has a token, these two are the first calls of a connection. The reply is a nonce;
  // `proof` is HMAC-SHA256(token, "score" 0 nonce), with one zero byte: the token does not travel.
  binary challenge() throws (1: Unavailable unavailable),
  void authenticate(1: binary proof) throws (1: Rejected rejected),

  Scores score_rows(1: list<Row> rows, 2: Output output)
    throws (1: Rejected rejected, 2: Unavailable unavailable),
  // One context with many candidates. A field that a candidate has replaces that of the context.
  Scores score_candidates(1: Row context, 2: list<Row> candidates, 3: Output output)
    throws (1: Rejected rejected, 2: Unavailable unavailable),
  Scores score_keys(1: list<Keys> rows, 2: Output output)
    throws (1: Rejected rejected, 2: Unavailable unavailable),
  Scores score_key_candidates(1: Keys context, 2: list<Keys> candidates, 3: Output output)
    throws (1: Rejected rejected, 2: Unavailable unavailable),
}
