// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_protocol.h"

#include "io/base/status.h"

namespace millrace::ps {

using namespace apache::thrift::protocol;  // the names of its types

bool MessageProtocol::Read(Type type, bool& value) {
  if (type != T_BOOL) return false;
  readBool(value);
  return true;
}

bool MessageProtocol::Read(Type type, int32_t& value) {
  if (type != T_I32) return false;
  readI32(value);
  return true;
}

bool MessageProtocol::Read(Type type, int64_t& value) {
  if (type != T_I64) return false;
  readI64(value);
  return true;
}

bool MessageProtocol::Read(Type type, double& value) {
  if (type != T_DOUBLE) return false;
  readDouble(value);
  return true;
}

bool MessageProtocol::Read(Type type, std::string& value) {
  if (type != T_STRING) return false;
  readString(value);
  return true;
}

bool MessageProtocol::Read(Type type, std::string_view& value) {
  if (type != T_STRING) return false;
  int32_t size = 0;
  readI32(size);
  if (size < 0) throw TProtocolException(TProtocolException::NEGATIVE_SIZE);
  if (size > string_limit_) throw TProtocolException(TProtocolException::SIZE_LIMIT);
  value = size == 0 ? std::string_view() : transport_->View(static_cast<uint32_t>(size));
  return true;
}

void MessageProtocol::Write(int16_t id, bool value) {
  writeFieldBegin("", T_BOOL, id);
  writeBool(value);
}

void MessageProtocol::Write(int16_t id, int32_t value) {
  writeFieldBegin("", T_I32, id);
  writeI32(value);
}

void MessageProtocol::Write(int16_t id, int64_t value) {
  writeFieldBegin("", T_I64, id);
  writeI64(value);
}

void MessageProtocol::Write(int16_t id, double value) {
  writeFieldBegin("", T_DOUBLE, id);
  writeDouble(value);
}

void MessageProtocol::Write(int16_t id, std::string_view value) {
  if (value.size() > INT32_MAX) throw TProtocolException(TProtocolException::SIZE_LIMIT);
  writeFieldBegin("", T_STRING, id);
  writeI32(static_cast<int32_t>(value.size()));
  if (value.empty()) return;
  transport_->write(reinterpret_cast<const uint8_t*>(value.data()),
                    static_cast<uint32_t>(value.size()));
}

std::shared_ptr<TProtocol> MessageProtocolFactory::getProtocol(
    std::shared_ptr<apache::thrift::transport::TTransport> transport) {
  auto message = std::dynamic_pointer_cast<MessageTransport>(transport);
  CHECK(message);
  return std::make_shared<MessageProtocol>(std::move(message), string_limit_, container_limit_);
}

}  // namespace millrace::ps
