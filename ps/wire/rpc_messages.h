// messages.h as Thrift carries it. `ToRpc` fills what Thrift sends, `FromRpc` what it has received;
// both replace what was there, using its memory again. Who is calling (worker and generation) is
// the channel's to add.
#pragma once

#include "gen-cpp/ParameterServer.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

void ToRpc(const JoinRequest& from, rpc::JoinRequest& to);
void FromRpc(rpc::JoinReply& from, JoinReply& to);

void FromRpc(rpc::StartReply& from, StartReply& to);

// Views show `from`.
ExchangeRequest FromRpc(const rpc::ExchangeRequest& from);
void ToRpc(const ExchangeReply& from, rpc::ExchangeReply& to);

void ToRpc(const StatsReply& from, rpc::StatsReply& to);
void FromRpc(const rpc::StatsReply& from, StatsReply& to);

}  // namespace millrace::ps
