// Reads the model off the servers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "io/base/status.h"
#include "ps/sharding.h"
#include "ps/wire/entry_codec.h"
#include "ps/worker/shard_client.h"

namespace millrace::ps {

// Merges the shards' entries, which come in pieces. Not thread-safe.
class ModelReader {
 public:
  // `clients` and `sharding` outlive the reader.
  ModelReader(std::span<ShardClient> clients, const Sharding& sharding)
      : clients_(clients), sharding_(sharding), streams_(clients.size()) {}

  // Calls visit(key, weight) for all weights that are not zero, in the order of keys. Once.
  Status Read(const std::function<void(uint64_t key, float weight)>& visit);

 private:
  struct Stream {
    EntryList entries;
    size_t at = 0;
    int64_t following = 0;  // where the next piece begins; -1: there is none

    bool empty() const { return at == entries.size(); }
    const Entry& front() const { return entries[at]; }
  };
  // Fetches a piece if the last one is used up; the stream is then empty only at its end.
  Status Fill(size_t shard);

  std::span<ShardClient> clients_;
  const Sharding& sharding_;
  std::vector<Stream> streams_;
};

}  // namespace millrace::ps
