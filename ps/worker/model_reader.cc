#include "ps/worker/model_reader.h"

namespace millrace::ps {

Status ModelReader::Fill(size_t shard) {
  Stream& stream = streams_[shard];
  while (stream.empty() && stream.following >= 0) {
    EntriesReply reply;
    RETURN_IF_ERROR(clients_[shard].Call(
        [&](Channel& channel) { return channel.Entries(stream.following, reply); }));
    RETURN_IF_ERROR(DecodeEntries(reply.entries, stream.entries));
    for (Entry& entry : stream.entries) entry.key = sharding_.KeyOf(shard, entry.key);
    stream.at = 0;
    stream.following = reply.following;
  }
  return {};
}

Status ModelReader::Read(const std::function<void(uint64_t key, float weight)>& visit) {
  while (true) {
    Stream* least = nullptr;
    for (size_t shard = 0; shard < streams_.size(); ++shard) {
      RETURN_IF_ERROR(Fill(shard));
      Stream& stream = streams_[shard];
      if (stream.empty()) continue;
      if (!least || stream.front().key < least->front().key) least = &stream;
    }
    if (!least) return {};
    visit(least->front().key, least->front().weight);
    ++least->at;
  }
}

}  // namespace millrace::ps
