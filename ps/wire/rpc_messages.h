// SPDX-License-Identifier: Apache-2.0
// Conversions between messages.h and the types that Thrift generates; exchange_wire.h has those of
// `exchange`. Each replaces its target. The channel adds worker and generation, and the proofs of
// a join.
#pragma once

#include "gen-cpp/ParameterServer.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

void ToRpc(const JoinRequest& from, rpc::JoinRequest& to);
JoinRequest FromRpc(const rpc::JoinRequest& from);
void ToRpc(const JoinReply& from, rpc::JoinReply& to);
void FromRpc(rpc::JoinReply& from, JoinReply& to);

void FromRpc(rpc::StartReply& from, StartReply& to);
void ToRpc(const StartReply& from, rpc::StartReply& to);

void ToRpc(const RestoredReply& from, rpc::RestoredReply& to);
void FromRpc(rpc::RestoredReply& from, RestoredReply& to);
void ToRpc(const AllFinishedReply& from, rpc::AllFinishedReply& to);
void FromRpc(rpc::AllFinishedReply& from, AllFinishedReply& to);

void ToRpc(const HoldReply& from, rpc::HoldReply& to);
void FromRpc(rpc::HoldReply& from, HoldReply& to);

void ToRpc(const DenseRequest& from, rpc::DenseRequest& to);
// The view shows `from`. Numbers must not be negative.
DenseRequest FromRpc(const rpc::DenseRequest& from);
void ToRpc(DenseReply& from, rpc::DenseReply& to);
void FromRpc(rpc::DenseReply& from, DenseReply& to);

void ToRpc(const StatsReply& from, rpc::StatsReply& to);
void FromRpc(const rpc::StatsReply& from, StatsReply& to);

}  // namespace millrace::ps
