// SPDX-License-Identifier: Apache-2.0
// Thrift's binary protocol, with fields that can be read and written without a copy.
#pragma once

#include <thrift/protocol/TBinaryProtocol.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ps/wire/message_transport.h"

namespace millrace::ps {

class MessageProtocol final : public apache::thrift::protocol::TBinaryProtocolT<MessageTransport> {
 public:
  using Type = apache::thrift::protocol::TType;

  MessageProtocol(std::shared_ptr<MessageTransport> transport, int string_limit,
                  int container_limit)
      : TBinaryProtocolT(transport, string_limit, container_limit, /*strict_read=*/true,
                         /*strict_write=*/true),
        transport_(std::move(transport)) {}

  MessageTransport& transport() { return *transport_; }

  // Calls read(id, type) for each field of a struct. If it returns false, the field is
  // skipped.
  template <typename Read>
  void ReadFields(Read read) {
    std::string name;
    while (true) {
      Type type;
      int16_t id = 0;
      readFieldBegin(name, type, id);
      if (type == apache::thrift::protocol::T_STOP) return;
      if (!read(id, type)) skip(type);
    }
  }

  // Reads a field's value if it has the right type; false otherwise.
  bool Read(Type type, bool& value);
  bool Read(Type type, int32_t& value);
  bool Read(Type type, int64_t& value);
  bool Read(Type type, double& value);
  bool Read(Type type, std::string& value);
  // Valid as long as MessageTransport::View says.
  bool Read(Type type, std::string_view& value);
  bool Read(Type type, uint32_t& value) { return ReadSigned<int32_t>(type, value); }
  bool Read(Type type, uint64_t& value) { return ReadSigned<int64_t>(type, value); }

  void Write(int16_t id, bool value);
  void Write(int16_t id, int32_t value);
  void Write(int16_t id, int64_t value);
  void Write(int16_t id, double value);
  // The value must stay valid until the transport is flushed.
  void Write(int16_t id, std::string_view value);
  void Write(int16_t id, const std::string& value) { Write(id, std::string_view(value)); }
  void Write(int16_t id, uint32_t value) { Write(id, std::bit_cast<int32_t>(value)); }
  void Write(int16_t id, uint64_t value) { Write(id, std::bit_cast<int64_t>(value)); }

 private:
  template <typename Signed, typename Unsigned>
  bool ReadSigned(Type type, Unsigned& value) {
    Signed number = 0;
    if (!Read(type, number)) return false;
    value = std::bit_cast<Unsigned>(number);
    return true;
  }

  std::shared_ptr<MessageTransport> transport_;
};

class MessageProtocolFactory final : public apache::thrift::protocol::TProtocolFactory {
 public:
  MessageProtocolFactory(int string_limit, int container_limit)
      : string_limit_(string_limit), container_limit_(container_limit) {}
  // `transport` is a MessageTransport.
  std::shared_ptr<apache::thrift::protocol::TProtocol> getProtocol(
      std::shared_ptr<apache::thrift::transport::TTransport> transport) override;

 private:
  int string_limit_, container_limit_;
};

}  // namespace millrace::ps
