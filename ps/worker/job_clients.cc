#include "ps/worker/job_clients.h"

#include <algorithm>
#include <utility>

#include "ps/wire/entry_codec.h"
#include "ps/worker/model_reader.h"

namespace millrace::ps {
namespace {

constexpr size_t kEntriesPerLoad = 64 << 10;
constexpr int kClockProbes = 5;
constexpr int64_t kNoteEveryNs = int64_t{5} * 1000000000;

// The steps that all shards have.
std::vector<uint64_t> Common(const std::vector<std::vector<uint64_t>>& lists) {
  std::vector<uint64_t> common;
  for (const uint64_t id : lists.front()) {
    const bool everywhere = std::all_of(lists.begin(), lists.end(), [&](const auto& list) {
      return std::find(list.begin(), list.end(), id) != list.end();
    });
    if (everywhere) common.push_back(id);
  }
  return common;
}

}  // namespace

JobClients::JobClients(Transport& transport, Clock& clock, const Sharding& sharding,
                       ClientOptions options)
    : clock_(clock), sharding_(sharding), options_(std::move(options)) {
  for (size_t shard = 0; shard < transport.shards(); ++shard) {
    clients_.emplace_back(transport, clock_, shard, options_);
  }
}

Status JobClients::Join() {
  std::vector<std::vector<uint64_t>> lists;
  for (ShardClient& client : clients_) {
    JoinReply reply;
    RETURN_IF_ERROR(client.Connect(reply));
    lists.push_back(std::move(reply.checkpoints));
  }
  checkpoints_ = Common(lists);
  MeasureClock();
  return {};
}

// The answer that came soonest tells most.
void JobClients::MeasureClock() {
  int64_t best_ns = INT64_MAX;
  for (int i = 0; i < kClockProbes; ++i) {
    StatsReply reply;
    const int64_t begin_ns = clock_.NowNs();
    if (!clients_[0].Call([&](Channel& channel) { return channel.Stats(reply); }).ok()) return;
    const int64_t end_ns = clock_.NowNs();
    if (end_ns - begin_ns >= best_ns) continue;
    best_ns = end_ns - begin_ns;
    clock_offset_ns_ = reply.clock_ns - (begin_ns + end_ns) / 2;
  }
}

Status JobClients::CallAll(const std::function<Status(size_t shard, Channel&)>& call) {
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    RETURN_IF_ERROR(clients_[shard].Call([&](Channel& channel) { return call(shard, channel); }));
  }
  return {};
}

Status JobClients::Restore(uint64_t checkpoint) {
  return CallAll([&](size_t, Channel& channel) -> Status {
    bool done = false;
    while (!done) RETURN_IF_ERROR(channel.Restore(checkpoint, done));
    return {};
  });
}

Result<std::string> JobClients::ChiefState() {
  std::string state;
  RETURN_IF_ERROR(clients_[0].Call([&](Channel& channel) { return channel.ChiefState(state); }));
  return state;
}

Status JobClients::LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights) {
  std::vector<EntryList> lists(clients_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const Sharding::Place place = sharding_.Of(keys[i]);
    lists[place.shard].push_back({.key = place.local, .weight = weights[i]});
  }
  return CallAll([&](size_t shard, Channel& channel) -> Status {
    const std::span<const Entry> all(lists[shard]);
    for (size_t at = 0; at < all.size(); at += kEntriesPerLoad) {
      std::string bytes;
      EncodeEntries(all.subspan(at, std::min(kEntriesPerLoad, all.size() - at)), bytes);
      RETURN_IF_ERROR(channel.Load(bytes));
    }
    return {};
  });
}

Status JobClients::KeepWaiting(const std::string& waiting, const char* for_what, int64_t& note_ns) {
  if (options_.should_stop && options_.should_stop()) return Cancelled("interrupted");
  if (waiting.empty() || clock_.NowNs() < note_ns || !options_.on_note) return {};
  options_.on_note("waiting for " + waiting + " to " + for_what);
  note_ns = clock_.NowNs() + kNoteEveryNs;
  return {};
}

Result<StartReply> JobClients::Start() {
  StartReply last;
  int64_t note_ns = clock_.NowNs() + kNoteEveryNs / 5;
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    StartReply reply;
    do {
      RETURN_IF_ERROR(clients_[shard].Call([&](Channel& channel) {
        return channel.Start(/*open=*/options_.join.worker == 0, reply);
      }));
      RETURN_IF_ERROR(KeepWaiting(reply.waiting, "join", note_ns));
    } while (!reply.waiting.empty());
    if (shard == 0 || reply.sequence < last.sequence) last = std::move(reply);
  }
  return last;
}

Status JobClients::WaitDrained() {
  int64_t note_ns = clock_.NowNs() + kNoteEveryNs;
  return CallAll([&](size_t, Channel& channel) -> Status {
    std::string waiting;
    do {
      RETURN_IF_ERROR(channel.Drained(waiting));
      RETURN_IF_ERROR(KeepWaiting(waiting, "finish", note_ns));
    } while (!waiting.empty());
    return {};
  });
}

Status JobClients::Checkpoint(uint64_t id, const std::string& chief_state) {
  return CallAll([&](size_t, Channel& channel) -> Status {
    bool done = false;
    while (!done) RETURN_IF_ERROR(channel.Checkpoint(id, chief_state, done));
    return {};
  });
}

Status JobClients::ReadModel(const std::function<void(uint64_t key, float weight)>& visit) {
  return ModelReader(clients_, sharding_).Read(visit);
}

Result<std::vector<StatsReply>> JobClients::Stats() {
  std::vector<StatsReply> all(clients_.size());
  RETURN_IF_ERROR(
      CallAll([&](size_t shard, Channel& channel) { return channel.Stats(all[shard]); }));
  return all;
}

}  // namespace millrace::ps
