// SPDX-License-Identifier: Apache-2.0
// The messages of a launcher to a process shim, on the shim's standard input:
//
//   type  1 byte   'D' working directory, 'A' one word of the command, 'T' the token, 'G' start,
//                  'S' signal
//   size  4 bytes  of the payload, little-endian
//   payload        text; for 'S' one byte, the signal's number; for 'G' nothing
//
// The end of the input means that the launcher has exited.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/launch/plan/command.h"

namespace millrace::launch {

enum class ShimMessageType : char {
  kDirectory = 'D',
  kWord = 'A',
  kToken = 'T',
  kStart = 'G',
  kSignal = 'S',
};

struct ShimMessage {
  ShimMessageType type = ShimMessageType::kStart;
  std::string payload;
};

// The process that a shim starts.
struct ShimTask {
  std::string directory;
  Words command;
  // If not empty, the shim adds --token_file=FILE to the command, a file of mode 600 in memory.
  std::string token;
};

// All messages of a task, 'G' included.
std::string EncodeTask(const ShimTask& task);
std::string EncodeSignal(int signal_number);

class ShimMessageReader {
 public:
  void Feed(std::string_view bytes) { bytes_ += bytes; }
  // The next message; nothing when more bytes are needed.
  Result<std::optional<ShimMessage>> Next();

 private:
  std::string bytes_;
};

// Adds one message to `task`. Returns true when the task is complete.
Result<bool> AddToTask(const ShimMessage& message, ShimTask& task);

}  // namespace millrace::launch
