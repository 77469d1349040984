// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/shim_message.h"

#include <cstdint>

namespace millrace::launch {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr size_t kMaxPayload = 1 << 20;

std::string Encode(ShimMessageType type, std::string_view payload) {
  std::string bytes(1, static_cast<char>(type));
  for (int shift = 0; shift < 32; shift += 8)
    bytes += static_cast<char>(static_cast<uint32_t>(payload.size()) >> shift);
  return bytes.append(payload);
}

}  // namespace

std::string EncodeTask(const ShimTask& task) {
  std::string bytes = Encode(ShimMessageType::kDirectory, task.directory);
  for (const std::string& word : task.command) bytes += Encode(ShimMessageType::kWord, word);
  if (!task.token.empty()) bytes += Encode(ShimMessageType::kToken, task.token);
  return bytes + Encode(ShimMessageType::kStart, "");
}

std::string EncodeSignal(int signal_number) {
  return Encode(ShimMessageType::kSignal, std::string(1, static_cast<char>(signal_number)));
}

Result<std::optional<ShimMessage>> ShimMessageReader::Next() {
  if (bytes_.size() < kHeadBytes) return std::optional<ShimMessage>();
  if (std::string_view("DATGS").find(bytes_[0]) == std::string_view::npos) {
    return Corrupt("message of type " + std::to_string(static_cast<uint8_t>(bytes_[0])) +
                   ": expected D, A, T, G or S");
  }
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= size_t{static_cast<uint8_t>(bytes_[1 + i])} << (8 * i);
  if (size > kMaxPayload) {
    return Corrupt("message of " + std::to_string(size) + " bytes: expected at most " +
                   std::to_string(kMaxPayload));
  }
  if (bytes_.size() < kHeadBytes + size) return std::optional<ShimMessage>();
  ShimMessage message = {static_cast<ShimMessageType>(bytes_[0]), bytes_.substr(kHeadBytes, size)};
  bytes_.erase(0, kHeadBytes + size);
  return std::optional(std::move(message));
}

Result<bool> AddToTask(const ShimMessage& message, ShimTask& task) {
  switch (message.type) {
    case ShimMessageType::kDirectory:
      task.directory = message.payload;
      return false;
    case ShimMessageType::kWord:
      task.command.push_back(message.payload);
      return false;
    case ShimMessageType::kToken:
      task.token = message.payload;
      return false;
    case ShimMessageType::kStart:
      if (task.command.empty()) return Corrupt("a task without a command");
      return true;
    case ShimMessageType::kSignal:
      return Cancelled("stopped before its start");
  }
  return Corrupt("message of no known type");
}

}  // namespace millrace::launch
