// SPDX-License-Identifier: Apache-2.0
// The calls of score.thrift on one connection.
#pragma once

#include <memory>
#include <string>

#include "millrace/score.h"
#include "tools/http/server.h"
#include "tools/serve/metrics.h"
#include "tools/serve/score_json.h"

namespace millrace::serve {

struct ThriftOptions {
  UnknownFields unknown = UnknownFields::kError;
  std::string token = {};  // empty: any peer may call
};

// All arguments outlive the session.
std::unique_ptr<http::FrameSession> MakeThriftSession(millrace_scorer* scorer,
                                                      const ThriftOptions& options,
                                                      Metrics& metrics);

}  // namespace millrace::serve
