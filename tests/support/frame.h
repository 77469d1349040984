// SPDX-License-Identifier: Apache-2.0
// The frame of a message on the wire, written without the transport's own code.
#pragma once

#include <string>

#include "io/record/record_format.h"

namespace millrace::test {

// The header of a frame whose message has this many bytes.
inline std::string FrameHeader(uint64_t length) {
  std::string header(io::kRecordHeaderBytes, '\0');
  io::StoreU64(header.data(), length);
  io::StoreU32(header.data() + 8, MaskedCrc32c(header.data(), 8));
  return header;
}

inline std::string Framed(const std::string& message) {
  std::string footer(io::kRecordFooterBytes, '\0');
  io::StoreU32(footer.data(), MaskedCrc32c(message.data(), message.size()));
  return FrameHeader(message.size()) + message + footer;
}

}  // namespace millrace::test
