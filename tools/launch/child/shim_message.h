// What a launcher tells a keeper, through the keeper's standard input:
//
//   type  1 byte   'D' working directory, 'A' one word of the command, 'T' the token, 'G' go,
//                  'S' signal
//   size  4 bytes  of the payload, little-endian
//   payload        text; for 'S' one byte, the signal's number; for 'G' nothing
//
// The end of the input means that the launcher is gone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/launch/plan/command.h"

namespace millrace::tools {

enum class KeeperMessageType : char {
  kDirectory = 'D',
  kWord = 'A',
  kToken = 'T',
  kGo = 'G',
  kSignal = 'S',
};

struct KeeperMessage {
  KeeperMessageType type = KeeperMessageType::kGo;
  std::string payload;
};

// The process that a keeper is to start.
struct KeeperTask {
  std::string directory;
  Words command;
  // If not empty, it is put into a file of mode 600, and --token_file=FILE is added to the command.
  std::string token;
};

// All messages of a task, 'G' included.
std::string EncodeTask(const KeeperTask& task);
std::string EncodeSignal(int signal_number);

class KeeperMessageReader {
 public:
  void Feed(std::string_view bytes) { bytes_ += bytes; }
  // The next message; nothing when more bytes are needed.
  Result<std::optional<KeeperMessage>> Next();

 private:
  std::string bytes_;
};

// Takes a message of a task. True when that was the last one.
Result<bool> AddToTask(const KeeperMessage& message, KeeperTask& task);

}  // namespace millrace::tools
