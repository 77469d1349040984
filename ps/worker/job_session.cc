// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/job_session.h"

#include <algorithm>
#include <utility>

#include "io/state/checkpoint_folder.h"
#include "ps/wire/entry_codec.h"

namespace millrace::ps {
namespace {

constexpr int kClockProbes = 5;
constexpr int64_t kNoteEveryNs = int64_t{5} * 1000000000;

std::string ListText(const std::vector<uint64_t>& ids) {
  std::string text;
  for (const uint64_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text.empty() ? "none" : text;
}

// The entries of one shard's model, which arrive in pieces.
struct EntryStream {
  EntryList entries;
  std::vector<float> factors;
  size_t at = 0;
  int64_t next = 0;  // where the next piece begins; -1: there is none

  bool empty() const { return at == entries.size(); }
  const Entry& front() const { return entries[at]; }
  std::span<const float> front_factors() const {
    const size_t width = factors.size() / entries.size();
    const auto mine = std::span(factors).subspan(at * width, width);
    const bool has_factors = std::any_of(mine.begin(), mine.end(), [](float v) { return v != 0; });
    return mine.first(has_factors ? width : 0);
  }

  // Fetches a piece if the last one is used up; the stream is then empty only at its end.
  Status Fill(JobSession& session, size_t shard) {
    while (empty() && next >= 0) {
      EntriesReply reply;
      RETURN_IF_ERROR(session.client(shard).Call(
          [&](Channel& channel) { return channel.Entries(next, reply); }));
      const size_t width = session.config().factors.width();
      RETURN_IF_ERROR(DecodeEntries(reply.entries, entries, width, factors));
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
  ASSIGN_OR_RETURN(join_.process, DrawIdentity());
  if (chief() && !options_.checkpoints.empty()) RETURN_IF_ERROR(ReadEpoch());
  for (ShardClient& client : clients_) {
    JoinReply reply;
    RETURN_IF_ERROR(client.Connect(reply));
    checkpoints_.push_back(std::move(reply.checkpoints));
  }
  MeasureClock();
  return {};
}

// A chief that rejoins belongs to the job that is running; any other one starts the next.
Status JobSession::ReadEpoch() {
  Result<io::Manifest> manifest = io::ReadManifest(options_.checkpoints);
  if (!manifest.ok()) manifest = io::ReadManifestToResume(options_.checkpoints);  // says what to do
  ASSIGN_OR_RETURN(manifest_, std::move(manifest));
  join_.epoch = manifest_.epoch + (options_.rejoin ? 0 : 1);
  return {};
}

Status JobSession::ClaimFolder() {
  ASSIGN_OR_RETURN(const io::Manifest found, io::ReadManifest(options_.checkpoints));
  if (found.checkpoint && !restored_ && !options_.rejoin) {
    return Invalid(options_.checkpoints + " has checkpoint " + std::to_string(*found.checkpoint) +
                   " of an earlier run: resume that run, or start a new one elsewhere");
  }
  io::Manifest mine = {.epoch = join_.epoch, .owner = join_.process};
  if (restored_ || options_.rejoin) {
    mine = manifest_;
    mine.epoch = join_.epoch;
    mine.owner = join_.process;
  }
  ASSIGN_OR_RETURN(claim_, io::FolderClaim::Take(options_.checkpoints, mine, options_.rejoin));
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

Status JobSession::CallAllThatRemain(const std::function<Status(size_t shard, Channel&)>& call) {
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    const Status status =
        clients_[shard].Call([&](Channel& channel) { return call(shard, channel); });
    if (!status.ok() && status.code() != Code::kIo) return status;
  }
  return {};
}

Status JobSession::Restore(const RestoreRequest& request) {
  return CallAll([&](size_t, Channel& channel) -> Status {
    bool done = false;
    while (!done) RETURN_IF_ERROR(channel.Restore(request, done));
    return {};
  });
}

// A worker's position is that of the shard that has received the fewest of its pushes.
Result<RestoredReply> JobSession::ReadRestored() {
  RestoredReply all;
  const Status read = CallAll([&](size_t shard, Channel& channel) -> Status {
    RestoredReply reply;
    RETURN_IF_ERROR(channel.Restored(reply));
    if (shard == 0) {
      all = std::move(reply);
      return {};
    }
    for (size_t w = 0; w < std::min(all.workers.size(), reply.workers.size()); ++w) {
      if (reply.workers[w].sequence >= all.workers[w].sequence) continue;
      all.workers[w] = std::move(reply.workers[w]);
    }
    return {};
  });
  RETURN_IF_ERROR(read);
  return all;
}

Status JobSession::PlaceWorkers(const std::vector<std::string>& states) {
  return CallAll([&](size_t, Channel& channel) { return channel.PlaceWorkers(states); });
}

Status JobSession::ContinueFrom(const sparse::CheckpointParts& earlier) {
  return Restore({.id = earlier.id, .shards = earlier.shards, .earlier_run = earlier.checkpoints});
}

// Servers may have checkpoints on disks of their own. Progress that this job cannot use is never
// taken for none.
Status JobSession::CheckUsable() const {
  const std::string& folder = options_.checkpoints;
  RETURN_IF_ERROR(io::ReadManifestToResume(folder).status());
  for (size_t shard = 0; shard < clients_.size() && manifest_.epoch == 0; ++shard) {
    if (checkpoints_[shard].empty()) continue;
    return Invalid(clients_[shard].Describe() + " has checkpoints (" +
                   ListText(checkpoints_[shard]) + "), but " + folder +
                   " has no manifest that names one: resume where the first worker ran before, or "
                   "start a new run elsewhere");
  }
  return {};
}

// For a checkpoint of as many servers: each reads its own part.
Status JobSession::CheckSaved(uint64_t checkpoint) const {
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    const std::vector<uint64_t>& saved = checkpoints_[shard];
    if (std::find(saved.begin(), saved.end(), checkpoint) != saved.end()) continue;
    return Invalid(clients_[shard].Describe() + ": expected checkpoint " +
                   std::to_string(checkpoint) + ", which the manifest in " + options_.checkpoints +
                   " names, found " + ListText(saved));
  }
  return {};
}

Result<std::optional<RestoredReply>> JobSession::RestoreLatest() {
  if (options_.checkpoints.empty()) return Invalid("resume needs a run folder");
  RETURN_IF_ERROR(CheckUsable());
  Status status;
  const std::pair<std::optional<uint64_t>, uint64_t> candidates[] = {
      {manifest_.checkpoint, manifest_.shards}, {manifest_.previous, manifest_.previous_shards}};
  for (const auto& [id, shards] : candidates) {
    if (!id) continue;
    status = shards == clients_.size() ? CheckSaved(*id) : Status();
    if (status.ok()) status = Restore({.id = *id, .shards = shards});
    if (status.ok()) {
      restored_ = true;
      if (manifest_.previous == id) manifest_.previous.reset();
      manifest_.checkpoint = *id;
      manifest_.shards = shards;
      ASSIGN_OR_RETURN(RestoredReply restored, ReadRestored());
      return std::optional(std::move(restored));
    }
    Note(status.message());
  }
  if (status.code() == Code::kFailed) {  // a server cannot use it
    return Invalid(status.message() + ": the run in " + options_.checkpoints +
                   " cannot be resumed like this, and stays as it is");
  }
  RETURN_IF_ERROR(status);
  Note(options_.checkpoints + " has no checkpoint: starting from the beginning");
  return std::optional<RestoredReply>();
}

Status JobSession::LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights,
                               std::span<const float> factors) {
  const size_t width = config().factors.width();
  std::vector<EntryList> lists(clients_.size());
  std::vector<std::vector<float>> blocks(clients_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const Sharding::Place place = sharding_.Of(keys[i]);
    lists[place.shard].push_back({.key = place.local, .weight = weights[i]});
    std::vector<float>& all = blocks[place.shard];
    all.resize(all.size() + width);
    if (!factors.empty()) std::copy_n(&factors[i * width], width, all.end() - width);
  }
  return CallAll([&](size_t shard, Channel& channel) -> Status {
    const std::span<const Entry> all(lists[shard]);
    for (size_t at = 0; at < all.size(); at += EntriesPerPiece(width)) {
      const size_t count = std::min(EntriesPerPiece(width), all.size() - at);
      std::string bytes;
      EncodeEntries(all.subspan(at, count), bytes,
                    std::span(blocks[shard]).subspan(at * width, count * width));
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
  if (chief() && !options_.checkpoints.empty()) RETURN_IF_ERROR(ClaimFolder());
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

Status JobSession::Stop(const std::function<Status()>& flush) {
  const Status flushed = gave_up_ ? Status() : flush();
  if (!gave_up_) RETURN_IF_ERROR(flushed);  // or else it gave up just now
  RETURN_IF_ERROR(HoldPushes());
  return CallAll([](size_t, Channel& channel) { return channel.Stop(); });
}

// A server waits for the chief, but not for the reply of another worker's last call: when all have
// finished and the chief has left, it exits.
Status JobSession::Finish() {
  const auto finish = [](size_t, Channel& channel) { return channel.Finish(); };
  return chief() ? CallAll(finish) : CallAllThatRemain(finish);
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
  for (ShardClient& client : clients_) {
    AllFinishedReply reply;
    do {
      RETURN_IF_ERROR(
          client.Call([&](Channel& channel) { return channel.AllFinished(kNoLimit, reply); }));
      RETURN_IF_ERROR(KeepWaiting(reply.blocked_on, "finish", note_ns));
    } while (!reply.blocked_on.empty());
  }
  return config().mode == Mode::kSync ? Status() : NotePartialPushes();
}

// A worker that is lost between its pushes to two shards, and does not come back, leaves a batch
// that is in the weights of some shards only.
Status JobSession::NotePartialPushes() {
  ASSIGN_OR_RETURN(const std::vector<StatsReply> shards, Stats());
  for (size_t w = 0; w < shards[0].workers.size(); ++w) {
    uint64_t most = 0;
    for (const StatsReply& shard : shards) most = std::max(most, shard.workers[w].pushes);
    std::string missing;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      if (shards[shard].workers[w].pushes == most) continue;
      missing += (missing.empty() ? "" : ", ") + clients_[shard].Describe();
    }
    if (missing.empty()) continue;
    Note("worker " + std::to_string(w) + " was lost: its last batch did not reach " + missing +
         " and is in the other servers' part of the model only");
  }
  return {};
}

// A server exits when all workers have left, perhaps before its last reply has arrived.
Status JobSession::Leave() {
  return CallAllThatRemain([](size_t, Channel& channel) { return channel.Leave(); });
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

// A worker has at most one push on its way, and sends it to all shards. So every push that one
// shard has received reaches the others, which accept no later one meanwhile.
Status JobSession::HoldPushes() {
  if (!holds_pushes()) return {};
  HoldRequest request;
  std::vector<uint64_t> last_pushes(config().num_workers);
  const Status held = CallAll([&](size_t, Channel& channel) -> Status {
    HoldReply reply;
    RETURN_IF_ERROR(channel.HoldPushes(request, reply));
    for (size_t w = 0; w < std::min(last_pushes.size(), reply.received.size()); ++w) {
      last_pushes[w] = std::max(last_pushes[w], reply.received[w]);
    }
    return {};
  });
  RETURN_IF_ERROR(held);
  request.last_pushes = std::move(last_pushes);
  for (bool blocked = true; blocked;) {
    blocked = false;
    const Status arrived = CallAll([&](size_t shard, Channel& channel) -> Status {
      HoldReply reply;
      RETURN_IF_ERROR(channel.HoldPushes(request, reply));
      blocked |= !reply.blocked_on.empty();
      shard_steps_[shard] = reply.progress.step;
      if (shard == 0) progress_ = reply.progress;
      return {};
    });
    RETURN_IF_ERROR(arrived);
  }
  return {};
}

Status JobSession::ReleasePushes() {
  if (!holds_pushes()) return {};
  return CallAll([](size_t, Channel& channel) {
    HoldReply unused;
    return channel.HoldPushes({.hold = false}, unused);
  });
}

Status JobSession::Checkpoint(uint64_t id, const std::string& chief_state) {
  if (!claim_) return Invalid("checkpoints need a run folder");
  RETURN_IF_ERROR(CheckSameStep());
  // Nothing was trained since the checkpoint of another number of servers, whose parts must stay.
  const io::Manifest& committed = claim_->manifest();
  if (committed.checkpoint == id && committed.shards != clients_.size()) return ReleasePushes();
  const CheckpointRequest request = {
      .id = id, .chief_state = chief_state, .committed = committed.checkpoint};
  int64_t note_ns = clock_.NowNs() + kNoteEveryNs;
  const Status saved = CallAll([&](size_t, Channel& channel) -> Status {
    for (bool done = false; !done;) {
      const Status status = channel.Checkpoint(request, done);
      if (status.code() != Code::kBusy) {
        RETURN_IF_ERROR(status);
      } else if (clock_.NowNs() >= note_ns) {  // also after a stop, which saves the model
        Note("still waiting for " + status.message());
        note_ns = clock_.NowNs() + kNoteEveryNs;
      }
    }
    return {};
  });
  RETURN_IF_ERROR(saved);
  return claim_->CommitCheckpoint(id, clients_.size());
}

// Merges the shards' entries.
Status JobSession::ReadModel(const VisitFeature& visit) {
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
    visit(least->front().key, least->front().weight, least->front_factors());
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
