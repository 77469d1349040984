// SPDX-License-Identifier: Apache-2.0
// The reader of models and checkpoints on any bytes, as they are and with every CRC made right, so
// that what is behind the checks is reached as well: no crash, no hang, no absurd allocation. Keys
// ascend, and fields come back when they are written again.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "io/base/crc32c.h"
#include "io/record/record_format.h"
#include "io/state/state_file.h"
#include "trainer/loop/training_state.h"
#include "trainer/model/model.h"

namespace millrace::trainer {
namespace {

void CheckBlock(const io::StateBlock& block, uint64_t& next_key) {
  CHECK(block.size() > 0 && block.size() <= io::kMaxStateBlockBytes);
  CHECK(block.floats.size() == block.size() * block.floats_per_entry);
  for (const uint64_t key : block.keys) {
    CHECK(key >= next_key);
    next_key = key + 1;
  }
}

void Read(std::string_view bytes) {
  auto reader = io::StateReader::Open("input", std::make_unique<io::MemorySource>(bytes));
  if (!reader.ok()) return;
  (void)ModelInfoFrom(reader->fields()).ok();
  (void)TrainingStateFrom(reader->fields()).ok();
  const auto again = io::StateFields::Decode(reader->fields().Encode());
  CHECK(again.ok() && again->all() == reader->fields().all());
  io::StateBlock block;
  uint64_t next_key = 0;
  while (true) {
    const auto more = reader->Next(block);
    if (!more.ok() || !*more) return;
    CheckBlock(block, next_key);
  }
}

// Makes the CRC of the part [begin, end) right; false if the bytes do not reach that far.
bool Repair(std::string& bytes, size_t begin, size_t end) {
  if (end > bytes.size()) return false;
  const size_t size = end - begin - io::kStateCrcBytes;
  io::StoreU32(&bytes[begin + size], MaskedCrc32c(&bytes[begin], size));
  return true;
}

std::string Repaired(std::string bytes) {
  if (bytes.size() < io::kStateHeaderBytes) return bytes;
  std::memcpy(bytes.data(), io::kStateMagic, io::kStateMagicBytes);
  io::StoreU32(&bytes[io::kStateMagicBytes], io::kStateVersion);
  size_t begin = 0;
  size_t end = io::kStateHeaderBytes + io::LoadU32(&bytes[16]) + io::kStateCrcBytes;
  while (Repair(bytes, begin, end) && end + io::kStateBlockHeaderBytes <= bytes.size()) {
    begin = end;
    const bool is_end = io::LoadU32(&bytes[begin]) == 0;
    const size_t body = is_end ? sizeof(uint64_t) : io::LoadU32(&bytes[begin + 8]);
    end = begin + io::kStateBlockHeaderBytes + body + io::kStateCrcBytes;
  }
  return bytes;
}

}  // namespace
}  // namespace millrace::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  millrace::trainer::Read(bytes);
  millrace::trainer::Read(millrace::trainer::Repaired(bytes));
  return 0;
}
