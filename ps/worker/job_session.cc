// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/job_session.h"

#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "ps/wire/entry_codec.h"

namespace millrace::ps {
namespace {

constexpr size_t kEntriesPerLoad = 64 << 10;
constexpr int kClockProbes = 5;
constexpr int64_t kNoteEveryNs = int64_t{5} * 1000000000;

// A number that tells this process from one started later in its place. It is not drawn from the
// run's seed, which both would share.
Status DrawIdentity(uint64_t* process) {
  if (::getrandom(process, sizeof *process, 0) != sizeof *process)
    return IoError("no random bytes for the worker's identity", errno);
  *process |= 1;  // 0 stands for no identity
  return {};
}

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

// The entries of one shard's model, which arrive in pieces.
struct EntryStream {
  EntryList entries;
  size_t at = 0;
  int64_t next = 0;  // where the next piece begins; -1: there is none

  bool empty() const { return at == entries.size(); }
  const Entry& front() const { return entries[at]; }

  // Fetches a piece if the last one is used up; the stream is then empty only at its end.
  Status Fill(JobSession& session, size_t shard) {
    while (empty() && next >= 0) {
      EntriesReply reply;
      RETURN_IF_ERROR(session.client(shard).Call(
          [&](Channel& channel) { return channel.Entries(next, reply); }));
      RETURN_IF_ERROR(DecodeEntries(reply.entries, entries));
      for (Entry& entry : entries) entry.key = session.sharding().KeyOf(shard, entry.key);
      at = 0;
      next = reply.next;
    }
    return {};
  }
};

}  // namespace

Status SessionOptions::Validate() const {
  if (thrift.servers.empty()) return Invalid("ps_hosts: expected the servers, found none");
  if (worker >= config.num_workers) {
    return Invalid("task_index: expected below the " + std::to_string(config.num_workers) +
                   " workers, found " + std::to_string(worker));
  }
  RETURN_IF_ERROR(thrift.tls.Validate());
  RETURN_IF_ERROR(wait.Validate());
  return config.Validate();
}

JobSession::JobSession(Private, SessionOptions options, std::unique_ptr<Transport> owned,
                       Transport* transport, Clock* clock)
    : options_(std::move(options)),
      owned_transport_(std::move(owned)),
      transport_(transport ? *transport : *owned_transport_),
      clock_(clock ? *clock : real_clock_),
      sharding_(options_.config.num_features, transport_.shards()),
      stop_grace_(clock_, options_.worker, options_.wait.should_stop),
      join_({.token = options_.token,
             .worker = options_.worker,
             .name = options_.name,
             .config = options_.config.Fields().Encode(),
             .rejoin = options_.rejoin}),
      shard_steps_(transport_.shards()) {
  for (size_t shard = 0; shard < transport_.shards(); ++shard) {
    clients_.emplace_back(transport_, clock_, shard, join_, options_.wait, stop_grace_);
  }
}

Result<std::unique_ptr<JobSession>> JobSession::Join(SessionOptions options) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(auto transport, MakeThriftTransport(options.thrift));
  auto session = std::make_unique<JobSession>(Private{}, std::move(options), std::move(transport),
                                              nullptr, nullptr);
  RETURN_IF_ERROR(session->JoinAll());
  return session;
}

Result<std::unique_ptr<JobSession>> JobSession::Join(SessionOptions options, Transport& transport,
                                                     Clock& clock) {
  RETURN_IF_ERROR(options.config.Validate());
  auto session =
      std::make_unique<JobSession>(Private{}, std::move(options), nullptr, &transport, &clock);
  RETURN_IF_ERROR(session->JoinAll());
  return session;
}

Status JobSession::JoinAll() {
  RETURN_IF_ERROR(DrawIdentity(&join_.process));
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

// The fastest reply is the most precise.
void JobSession::MeasureClock() {
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

void JobSession::Note(const std::string& message) const {
  if (options_.wait.on_note) options_.wait.on_note(message);
}

Status JobSession::CallAll(const std::function<Status(size_t shard, Channel&)>& call) {
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    RETURN_IF_ERROR(clients_[shard].Call([&](Channel& channel) { return call(shard, channel); }));
  }
  return {};
}

Status JobSession::Restore(uint64_t checkpoint) {
  return CallAll([&](size_t, Channel& channel) -> Status {
    bool done = false;
    while (!done) RETURN_IF_ERROR(channel.Restore(checkpoint, done));
    return {};
  });
}

Result<std::optional<std::string>> JobSession::RestoreLatest() {
  Status status;
  for (const uint64_t id : checkpoints_) {
    status = Restore(id);
    if (status.ok()) {
      std::string state;
      RETURN_IF_ERROR(
          clients_[0].Call([&](Channel& channel) { return channel.ChiefState(state); }));
      return std::optional(std::move(state));
    }
    Note(status.message());
  }
  RETURN_IF_ERROR(status);
  Note("the servers have no checkpoint in common: starting from the beginning");
  return std::optional<std::string>();
}

Status JobSession::LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights) {
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

Status JobSession::KeepWaiting(const std::string& blocked_on, const char* to_do, int64_t& note_ns) {
  if (options_.wait.should_stop && options_.wait.should_stop()) return Cancelled("interrupted");
  if (blocked_on.empty() || clock_.NowNs() < note_ns) return {};
  Note("waiting for " + blocked_on + " to " + to_do);
  note_ns = clock_.NowNs() + kNoteEveryNs;
  return {};
}

// The shard that has received the fewest of this worker's pushes decides where it resumes.
Result<JobSession::ResumePoint> JobSession::Start() {
  StartReply least;
  int64_t note_ns = clock_.NowNs() + kNoteEveryNs / 5;
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    StartReply reply;
    do {
      RETURN_IF_ERROR(clients_[shard].Call(
          [&](Channel& channel) { return channel.Start(/*open=*/chief(), reply); }));
      RETURN_IF_ERROR(KeepWaiting(reply.blocked_on, "join", note_ns));
    } while (!reply.blocked_on.empty());
    shard_steps_[shard] = reply.step;
    if (shard == 0 || reply.sequence < least.sequence) least = std::move(reply);
  }
  progress_.step = least.step;
  progress_.examples = least.examples;
  sequence_ = least.sequence;
  return ResumePoint{.sequence = least.sequence, .state = std::move(least.state)};
}

void JobSession::Apply(size_t shard, const ExchangeReply& reply) {
  shard_steps_[shard] = reply.progress.step;
  if (shard == 0) progress_ = reply.progress;
  stopped_ |= reply.stopped;
  others_finished_ = reply.others_finished && (shard == 0 || others_finished_);
}

Status JobSession::Stop() {
  return CallAll([](size_t, Channel& channel) { return channel.Stop(); });
}

Status JobSession::Finish() {
  return CallAll([](size_t, Channel& channel) { return channel.Finish(); });
}

Result<bool> JobSession::WaitForProgress(uint64_t until_examples) {
  until_examples = std::min(until_examples, kNoLimit);
  AllFinishedReply reply;
  RETURN_IF_ERROR(clients_[0].Call(
      [&](Channel& channel) { return channel.AllFinished(until_examples, reply); }));
  progress_ = reply.progress;
  if (options_.wait.should_stop && options_.wait.should_stop()) return Cancelled("interrupted");
  return !reply.blocked_on.empty();
}

Status JobSession::WaitAllFinished() {
  int64_t note_ns = clock_.NowNs() + kNoteEveryNs;
  return CallAll([&](size_t, Channel& channel) -> Status {
    AllFinishedReply reply;
    do {
      RETURN_IF_ERROR(channel.AllFinished(kNoLimit, reply));
      RETURN_IF_ERROR(KeepWaiting(reply.blocked_on, "finish", note_ns));
    } while (!reply.blocked_on.empty());
    return {};
  });
}

Status JobSession::Leave() {
  return CallAll([](size_t, Channel& channel) { return channel.Leave(); });
}

// Shards differ only if a worker stopped between its pushes to them.
Status JobSession::CheckSameStep() const {
  if (!steps_together()) return {};
  for (size_t shard = 1; shard < clients_.size(); ++shard) {
    if (shard_steps_[shard] == shard_steps_[0]) continue;
    return Failed("no checkpoint was written: " + clients_[0].Describe() + " is at step " +
                  std::to_string(shard_steps_[0]) + " and " + clients_[shard].Describe() +
                  " at step " + std::to_string(shard_steps_[shard]) +
                  ", with an incomplete step; the last checkpoint stays");
  }
  return {};
}

Status JobSession::Checkpoint(uint64_t id, const std::string& chief_state) {
  RETURN_IF_ERROR(CheckSameStep());
  return CallAll([&](size_t, Channel& channel) -> Status {
    bool done = false;
    while (!done) RETURN_IF_ERROR(channel.Checkpoint(id, chief_state, done));
    return {};
  });
}

// Merges the shards' entries.
Status JobSession::ReadModel(const std::function<void(uint64_t key, float weight)>& visit) {
  std::vector<EntryStream> streams(clients_.size());
  while (true) {
    EntryStream* least = nullptr;
    for (size_t shard = 0; shard < streams.size(); ++shard) {
      EntryStream& stream = streams[shard];
      RETURN_IF_ERROR(stream.Fill(*this, shard));
      if (stream.empty()) continue;
      if (!least || stream.front().key < least->front().key) least = &stream;
    }
    if (!least) return {};
    visit(least->front().key, least->front().weight);
    ++least->at;
  }
}

Result<std::vector<StatsReply>> JobSession::Stats() {
  std::vector<StatsReply> all(clients_.size());
  RETURN_IF_ERROR(
      CallAll([&](size_t shard, Channel& channel) { return channel.Stats(all[shard]); }));
  return all;
}

}  // namespace millrace::ps
