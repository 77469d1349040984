#include "trainer/sparse/sparse_backend.h"

#include <cstring>

namespace millrace::trainer {
namespace {

struct PlaceBytes {
  uint64_t examples, epoch, rows, fingerprint;
};

}  // namespace

std::string WorkerPlace::Encode() const {
  const PlaceBytes place = {examples, position.epoch, position.rows, input_fingerprint};
  return {reinterpret_cast<const char*>(&place), sizeof place};
}

Result<WorkerPlace> WorkerPlace::Decode(const std::string& bytes) {
  PlaceBytes place;
  if (bytes.size() != sizeof place) {
    return Corrupt("a worker's place: expected " + std::to_string(sizeof place) + " bytes, found " +
                   std::to_string(bytes.size()));
  }
  std::memcpy(&place, bytes.data(), sizeof place);
  return WorkerPlace{.examples = place.examples,
                     .position = {.epoch = place.epoch, .rows = place.rows},
                     .input_fingerprint = place.fingerprint};
}

}  // namespace millrace::trainer
