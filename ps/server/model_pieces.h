// A shard's weights, to be read in pieces.
#pragma once

#include <cstdint>
#include <string>

#include "ps/wire/entry_codec.h"
#include "sparse/local_store.h"

namespace millrace::ps {

// All pieces show the model as it was when the first one was asked for. Not thread-safe.
class ModelPieces {
 public:
  // Appends the piece that begins at entry `first` (see entry_codec.h) and returns where the next
  // one begins; -1 after the last.
  int64_t Read(const sparse::LocalStore& store, int64_t first, std::string& out);

 private:
  EntryList entries_;  // while they are being read
};

}  // namespace millrace::ps
