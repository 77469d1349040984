#include "ps/server/exchange_processor.h"

#include <thrift/TApplicationException.h>

namespace millrace::ps {

using apache::thrift::TApplicationException;
using apache::thrift::protocol::T_EXCEPTION;
using apache::thrift::protocol::T_REPLY;
using apache::thrift::protocol::TProtocol;

bool ExchangeProcessor::dispatchCall(TProtocol* in, TProtocol* out, const std::string& name,
                                     int32_t sequence, void* context) {
  if (name != "exchange") {
    return ParameterServerProcessor::dispatchCall(in, out, name, sequence, context);
  }
  Exchange(dynamic_cast<MessageProtocol&>(*in), dynamic_cast<MessageProtocol&>(*out), sequence);
  return true;
}

void ExchangeProcessor::Exchange(MessageProtocol& in, MessageProtocol& out, int32_t sequence) {
  ExchangeCall call;
  ReadExchangeArgs(in, call);
  in.transport().readEnd();  // what the call shows stays until the next message
  reply_ = {};
  rpc::ParameterServer_exchange_result result;
  try {
    connection_->Exchange(call, reply_);
    result.__isset.success = true;
  } catch (const rpc::Refused& refused) {
    result.refused = refused;
    result.__isset.refused = true;
  } catch (const rpc::JobFailed& failed) {
    result.failed = failed;
    result.__isset.failed = true;
  } catch (const std::exception& error) {
    out.writeMessageBegin("exchange", T_EXCEPTION, sequence);
    const TApplicationException message(error.what());
    message.write(&out);
    out.transport().flush();
    return;
  }
  out.writeMessageBegin("exchange", T_REPLY, sequence);
  if (result.__isset.success) {
    WriteExchangeResult(reply_, out);
  } else {
    result.write(&out);
  }
  out.transport().flush();
  const bool done = result.__isset.success && reply_.outcome == Outcome::kDone;
  if (done) LookAhead(call.request, out);
}

// A list that cannot be one costs the connection, like any other.
void ExchangeProcessor::LookAhead(const ExchangeRequest& request, MessageProtocol& out) {
  try {
    connection_->LookAhead(request);
  } catch (const rpc::Refused&) {
    out.transport().close();
    throw;
  }
}

}  // namespace millrace::ps
