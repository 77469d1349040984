// The service's calls by name: as Thrift's generated code has them, but for `exchange`.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gen-cpp/ParameterServer.h"
#include "ps/server/connection.h"

namespace millrace::ps {

// Of one connection; its protocols are MessageProtocols.
class ExchangeProcessor final : public rpc::ParameterServerProcessor {
 public:
  explicit ExchangeProcessor(std::shared_ptr<Connection> connection)
      : ParameterServerProcessor(connection), connection_(std::move(connection)) {}

 protected:
  bool dispatchCall(apache::thrift::protocol::TProtocol* in,
                    apache::thrift::protocol::TProtocol* out, const std::string& name,
                    int32_t sequence, void* context) override;

 private:
  void Exchange(MessageProtocol& in, MessageProtocol& out, int32_t sequence);
  void LookAhead(const ExchangeRequest& request, MessageProtocol& out);

  std::shared_ptr<Connection> connection_;
  ExchangeReply reply_;
};

}  // namespace millrace::ps
