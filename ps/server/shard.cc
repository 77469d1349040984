// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shard.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "profiler/trace.h"
#include "ps/server/shard_file.h"

namespace millrace::ps {
using profiler::Cat;

namespace {

// The same options for local keys, which keep their order.
sparse::UpdateOptions LocalOptions(sparse::UpdateOptions update, const Sharding& sharding,
                                   size_t shard) {
  if (sharding.num_features() == 0) return update;
  for (sparse::KeyRange& range : update.key_groups.ranges) {
    const uint64_t local = range.first / sharding.shards();
    range.first = sharding.KeyOf(shard, local) >= range.first ? local : local + 1;
  }
  return update;
}

}  // namespace

Shard::Shard(ShardOptions options)
    : options_(std::move(options)),
      workers_(options_.num_workers),
      stragglers_(options_.num_workers) {}

std::string Shard::Describe(size_t worker) const {
  const std::string& name = workers_[worker].name;
  return "worker " + std::to_string(worker) + (name.empty() ? "" : " (" + name + ")");
}

template <typename Which>
std::string Shard::List(Which which) const {
  std::string text;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (which(workers_[i])) text += (text.empty() ? "" : ", ") + Describe(i);
  }
  return text;
}

void Shard::Note(const std::string& message) const {
  if (options_.on_note) options_.on_note(message);
}

void Shard::Fail(const std::string& message) {
  if (!failed_.ok()) return;
  failed_ = Status(Code::kIo, message);
  Note(message);
}

Status Shard::MakeModel(const std::string& config) {
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(config));
  ASSIGN_OR_RETURN(JobConfig job, JobConfig::From(fields));
  if (job.num_workers != options_.num_workers || job.num_shards != options_.num_shards) {
    return Invalid("this server belongs to a job of " + std::to_string(options_.num_workers) +
                   " workers and " + std::to_string(options_.num_shards) +
                   " servers, found a worker of one with " + std::to_string(job.num_workers) +
                   " and " + std::to_string(job.num_shards));
  }
  const Sharding sharding(job.num_features, job.num_shards);
  const bool intercept =
      job.intercept && sharding.Of(io::kInterceptKey).shard == options_.shard && !job.dense;
  const auto whole_key = [sharding, shard = options_.shard](uint64_t local) {
    return sharding.KeyOf(shard, local);
  };
  ASSIGN_OR_RETURN(store_,
                   sparse::LocalStore::Create({.num_features = sharding.local_features(),
                                               .intercept = intercept,
                                               .factors = job.factors,
                                               .whole_key = whole_key},
                                              LocalOptions(job.update, sharding, options_.shard)));
  sharding_ = sharding;
  if (job.dense) dense_.emplace(*job.dense, options_.num_workers);
  config_ = std::move(job);
  return {};
}

bool Shard::SameProcess(const JoinRequest& request) const {
  return request.process != 0 && request.process == workers_[request.worker].process;
}

std::string Shard::JoinBlockedOn(const JoinRequest& request) const {
  if (request.worker >= workers_.size() || !request.rejoin || SameProcess(request)) return "";
  if (!workers_[request.worker].connected) return "";
  return Describe(request.worker) + ", whose connection is still open";
}

Status Shard::CheckJoin(const JoinRequest& request) const {
  const size_t worker = request.worker;
  if (worker >= workers_.size()) {
    return Invalid("worker " + std::to_string(worker) + ": expected below the job's " +
                   std::to_string(workers_.size()) + " workers");
  }
  const WorkerRecord& record = workers_[worker];
  const bool same_process = SameProcess(request);
  if (same_process && request.attempt <= record.attempt) {
    return Invalid(Describe(worker) + " has a newer connection");
  }
  if (worker == 0 && open_ && request.epoch != epoch_) {
    return Invalid("this server belongs to epoch " + std::to_string(epoch_) +
                   " of its run, found worker 0 of epoch " + std::to_string(request.epoch));
  }
  if (joins_closed_ && worker != 0 && !record.finished) {
    return Invalid(Describe(worker) + " comes back too late: the job has ended without it");
  }
  if (record.phase == WorkerPhase::kJoined && !same_process) {
    return Invalid(Describe(worker) + " is in this job already; found another one (" +
                   request.name + ") with the same task_index");
  }
  const bool ended = record.phase == WorkerPhase::kFinished || record.phase == WorkerPhase::kLeft;
  if (!ended || (request.rejoin && JoinBlockedOn(request).empty())) return {};
  return Invalid(Describe(worker) + " has finished: the job is ending");
}

Result<uint64_t> Shard::Join(const JoinRequest& request) {
  if (!failed_.ok()) return failed_;
  RETURN_IF_ERROR(CheckJoin(request));
  if (!config_) {
    RETURN_IF_ERROR(MakeModel(request.config));
  } else {
    ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(request.config));
    RETURN_IF_ERROR(CheckSameJob(config_->Fields(), fields));
  }
  WorkerRecord& record = workers_[request.worker];
  if (record.phase == WorkerPhase::kLost) {
    Note(Describe(request.worker) + " is back as " + request.name);
  }
  if (request.worker == 0) {
    epoch_ = request.epoch;
    if (request.process != record.process) hold_.reset();  // of a chief that is gone
  }
  record.name = request.name;
  record.process = request.process;
  record.attempt = request.attempt;
  record.connected = true;
  record.given_up = false;
  if (record.phase == WorkerPhase::kAbsent || record.phase == WorkerPhase::kLost) {
    record.phase = record.finished ? WorkerPhase::kFinished : WorkerPhase::kJoined;
  }
  return ++record.generation;
}

Status Shard::Open(size_t worker) {
  if (worker != 0) return Invalid("only worker 0 opens a job, found " + Describe(worker));
  if (epoch_ != 0 && !options_.checkpoints.empty() && !claim_) {
    ASSIGN_OR_RETURN(claim_, io::FolderClaim::Take(options_.checkpoints,
                                                   {.epoch = epoch_, .owner = options_.instance}));
  }
  open_ = true;
  return {};
}

std::string Shard::StartBlockedOn() const {
  const std::string absent =
      List([](const WorkerRecord& w) { return w.phase == WorkerPhase::kAbsent; });
  if (!absent.empty()) return absent;
  return open_ ? "" : "worker 0 to prepare the model";
}

Status Shard::CheckCaller(size_t worker, uint64_t generation) const {
  if (worker >= workers_.size() || workers_[worker].phase == WorkerPhase::kAbsent) {
    return Invalid("worker " + std::to_string(worker) + " has not joined");
  }
  if (workers_[worker].generation == generation) return {};
  return Invalid(Describe(worker) + " has a newer connection");
}

SharedKeys Shard::FindList(size_t worker, uint64_t signature) const {
  return workers_[worker].replies.FindList(signature);
}

void Shard::KeepList(size_t worker, SharedKeys list) {
  workers_[worker].replies.KeepList(std::move(list));
}

// With plain sync the job waits for a lost worker until the chief stops it; in all other modes the
// job goes on without it.
bool Shard::Active(const WorkerRecord& worker) const {
  if (worker.finished) return false;
  if (worker.phase == WorkerPhase::kJoined) return true;
  const bool everyone = config_->mode == Mode::kSync && config_->replicas_to_aggregate == 0;
  return worker.phase == WorkerPhase::kLost && everyone && !stopped_;
}

StepQuorum Shard::Quorum() const {
  const auto active = static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(), [&](const auto& w) { return Active(w); }));
  const uint64_t wanted = config_->replicas_to_aggregate;
  return {.active = active, .needed = wanted == 0 ? active : std::min<size_t>(active, wanted)};
}

uint64_t Shard::SlowestActive() const {
  uint64_t slowest = ~uint64_t{0};
  for (const WorkerRecord& w : workers_) {
    if (Active(w)) slowest = std::min(slowest, w.received);
  }
  return slowest;
}

Status Shard::Receive(size_t worker, Push push, int64_t now_ns) {
  if (!failed_.ok()) return failed_;
  if (!StartBlockedOn().empty()) return Invalid("the job has not begun");
  WorkerRecord& record = workers_[worker];
  if (push.sequence <= record.received || stopped_) return {};
  if (push.sequence != record.received + 1) {
    return Invalid(Describe(worker) + ": expected push " + std::to_string(record.received + 1) +
                   ", found " + std::to_string(push.sequence));
  }
  if (push.step > progress_.step) {
    return Invalid(Describe(worker) + ": expected a gradient from step " +
                   std::to_string(progress_.step) + " at most, found " + std::to_string(push.step));
  }
  const size_t floats = config_->batch_layout().Count(push.list->keys);
  if (push.gradient.size() != floats) {
    return Invalid(Describe(worker) + ": expected " + std::to_string(floats) +
                   " gradients, found " + std::to_string(push.gradient.size()));
  }
  record.received = push.sequence;
  record.received_state = push.state;
  record.arrived_ns = now_ns;
  if (config_->mode != Mode::kSync) {
    Scale(push.list->keys, push.gradient, push.rows);
    RETURN_IF_ERROR(Apply(push.list->keys, push.gradient));
    Count(record, push);
    return {};
  }
  if (push.step < progress_.step) {  // its step is complete already
    ++record.dropped;
    record.applied = push.sequence;
    record.applied_state = std::move(push.state);
    record.dropped_at = progress_.step;
    TryStep(now_ns);
    return failed_;
  }
  record.pending = std::move(push);
  TryStep(now_ns);
  return failed_;
}

void Shard::Count(WorkerRecord& worker, const Push& push) {
  worker.applied = push.sequence;
  worker.applied_state = push.state;
  if (push.rows == 0) return;
  ++worker.pushes;
  worker.examples += push.rows;
  progress_.examples += push.rows;
  progress_.loss += push.loss;
  progress_.weight += push.weight;
}

void Shard::Scale(std::span<const uint64_t> keys, std::span<float> gradient, uint64_t rows) const {
  if (sparse::GradientScaleOf(config_->update.rule) != sparse::GradientScale::kMean) return;
  const auto factor = static_cast<float>(1 / static_cast<double>(std::max<uint64_t>(rows, 1)));
  // The scales between the two stay as they are.
  for (float& g : gradient.first(keys.size())) g *= factor;
  for (float& g : gradient.subspan(config_->batch_layout().per_key * keys.size())) g *= factor;
}

// One update of the model.
Status Shard::Apply(std::span<const uint64_t> keys, std::span<const float> gradient) {
  TRACE_SCOPE("apply", Cat::kServer, {.keys = static_cast<int64_t>(keys.size())});
  RETURN_IF_ERROR(store_->Push(keys, gradient, {}));
  keys_pushed_ += keys.size();
  progress_.step = store_->steps();
  return {};
}

void Shard::TryStep(int64_t now_ns) {
  size_t pending = 0, late = 0;
  for (const WorkerRecord& w : workers_) {
    pending += w.pending ? 1 : 0;
    late += !w.pending && Active(w) && w.dropped_at == progress_.step ? 1 : 0;
  }
  const StepQuorum quorum = Quorum();
  if (pending > 0 && quorum.IsEnough(pending, late)) ApplyPending(now_ns);
  if (dense_) dense_->ApplyComplete(Quorum());
}

// In the order of workers, not of arrival. Pushes without rows make no step.
void Shard::ApplyPending(int64_t now_ns) {
  uint64_t rows = 0;
  for (const WorkerRecord& w : workers_) rows += w.pending ? w.pending->rows : 0;
  if (rows > 0) MakeStep(now_ns);
  for (WorkerRecord& w : workers_) {
    if (!w.pending || !failed_.ok()) continue;
    Count(w, *w.pending);
    w.pending.reset();
  }
}

void Shard::MakeStep(int64_t now_ns) {
  stragglers_.CountStep(workers_, now_ns, [&](size_t worker, const std::string& what) {
    Note(Describe(worker) + " " + what);
  });
  const auto is_pending = [](const WorkerRecord& w) { return w.pending.has_value(); };
  const auto first = std::find_if(workers_.begin(), workers_.end(), is_pending);
  Status applied;
  if (std::none_of(first + 1, workers_.end(), is_pending)) {  // one gradient needs no sum
    Push& push = *first->pending;
    Scale(push.list->keys, push.gradient, push.rows);
    applied = Apply(push.list->keys, push.gradient);
  } else {
    uint64_t rows = 0;
    {
      TRACE_SCOPE("aggregate", Cat::kServer);
      sum_.Clear();
      const NumberLayout layout = config_->batch_layout();
      for (const WorkerRecord& w : workers_) {
        if (!w.pending) continue;
        const std::span<const uint64_t> keys = w.pending->list->keys;
        const std::span<const float> gradient = w.pending->gradient;
        const size_t flat = layout.per_key * keys.size();
        sum_.Add(keys, gradient.first(flat), gradient.subspan(flat));
        rows += w.pending->rows;
      }
      if (layout.per_feature > 0) sum_.SumBlocks(layout.per_feature);
    }
    Scale(sum_.keys(), sum_.gradient(), rows);
    applied = Apply(sum_.keys(), sum_.gradient());
  }
  if (!applied.ok()) Fail("a step could not be applied: " + applied.message());
}

bool Shard::ReplyDue(size_t worker, uint64_t sequence) const {
  const WorkerRecord& record = workers_[worker];
  if (stopped_ || sequence < record.received) return true;
  if (config_->mode == Mode::kSync) return !record.pending;
  if (config_->mode == Mode::kAsync) return true;
  const uint64_t slowest = SlowestActive();
  return record.received <= slowest || record.received - slowest <= config_->staleness;
}

std::string Shard::ReplyBlockedOn(size_t worker) const {
  if (config_->mode == Mode::kSync) {
    return List([&](const WorkerRecord& w) { return Active(w) && !w.pending; });
  }
  const uint64_t mine = workers_[worker].received;
  return List(
      [&](const WorkerRecord& w) { return Active(w) && w.received + config_->staleness < mine; });
}

Result<Shard::Weights> Shard::Gather(size_t worker, uint64_t sequence, const SharedKeys& list,
                                     PullOf what) {
  const bool remember = what == PullOf::kBatch;
  ReplyCache& replies = workers_[worker].replies;
  if (const ReplyCache::Reply* same =
          remember ? replies.Find(sequence, list->signature) : nullptr) {
    return Weights{.step = same->step, .numbers = same->weights};
  }
  Weights weights = {.step = progress_.step, .numbers = std::make_shared<PlainNumbers>()};
  {
    TRACE_SCOPE("gather", Cat::kServer, {.keys = static_cast<int64_t>(list->keys.size())});
    const std::span<const uint64_t> keys = list->keys;
    const std::span<float> numbers = weights.numbers->Resize(config_->LayoutOf(what).Count(keys));
    switch (what) {
      case PullOf::kBatch:
        RETURN_IF_ERROR(store_->PeekBatch(keys, numbers));
        break;
      case PullOf::kWeights:
        RETURN_IF_ERROR(store_->Pull(keys, numbers));
        break;
      case PullOf::kFactors:
        RETURN_IF_ERROR(store_->PullFactors(io::FeatureKeys(keys), numbers));
        break;
    }
  }
  keys_pulled_ += list->keys.size();
  if (remember) {
    replies.Add(
        {.sequence = sequence, .step = weights.step, .list = list, .weights = weights.numbers});
  }
  return weights;
}

Status Shard::InitDense(size_t worker, size_t block, std::span<const float> weights) {
  if (!dense_) return Invalid("this job has no dense blocks");
  return worker == 0 ? dense_->Init(block, weights) : Status();
}

Status Shard::PushDense(size_t block, const DenseTable::Gradient& gradient) {
  if (!failed_.ok()) return failed_;
  if (!dense_ || !dense_->Has(block)) {
    return Invalid("dense block " + std::to_string(block) + " is not known");
  }
  if (stopped_) return {};
  const bool at_once = config_->mode != Mode::kSync;
  RETURN_IF_ERROR(dense_->Push(block, gradient, at_once));
  if (!at_once) dense_->ApplyIfComplete(block, Quorum());
  return {};
}

bool Shard::DenseReady(size_t worker, size_t block, uint64_t sequence) const {
  if (!dense_ || !dense_->Has(block)) return false;
  return stopped_ || dense_->Applied(block, worker, sequence);
}

Status Shard::Stop(size_t worker) {
  if (worker != 0) return Invalid("only worker 0 stops a job, found " + Describe(worker));
  stopped_ = true;
  hold_.reset();
  for (WorkerRecord& w : workers_) w.pending.reset();
  if (dense_) dense_->DropPending();
  return {};
}

void Shard::Finish(size_t worker, int64_t now_ns) {
  WorkerRecord& record = workers_[worker];
  record.finished = true;
  if (record.phase == WorkerPhase::kJoined) record.phase = WorkerPhase::kFinished;
  if (config_->mode == Mode::kSync) TryStep(now_ns);
}

void Shard::Leave(size_t worker, int64_t now_ns) {
  Finish(worker, now_ns);
  workers_[worker].phase = WorkerPhase::kLeft;
  workers_[worker].connected = false;
}

void Shard::Disconnected(size_t worker, uint64_t generation, int64_t now_ns) {
  WorkerRecord& record = workers_[worker];
  if (record.generation != generation) return;  // it is back already
  record.connected = false;
  if (record.phase == WorkerPhase::kFinished && worker != 0) record.phase = WorkerPhase::kLeft;
  if (record.phase != WorkerPhase::kJoined && record.phase != WorkerPhase::kFinished) return;
  record.phase = WorkerPhase::kLost;
  record.lost_ns = now_ns;
  Note(Describe(worker) + " is gone: its connection closed after push " +
       std::to_string(record.received));
  if (config_->mode == Mode::kSync) TryStep(now_ns);
}

void Shard::Tick(int64_t now_ns) {
  if (!config_) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerRecord& w = workers_[i];
    if (w.phase != WorkerPhase::kLost || now_ns - w.lost_ns < options_.rejoin_ns) continue;
    w.given_up = true;
    // Only the chief evaluates and saves the model; after a stop only the chief matters.
    if ((Active(w) && !stopped_) || i == 0) {
      char text[80];
      std::snprintf(text, sizeof text, " did not come back within %.1f s: the job ends",
                    static_cast<double>(options_.rejoin_ns) * 1e-9);
      Fail(Describe(i) + text);
    }
  }
}

bool Shard::MayPush(const WorkerRecord& worker) const {
  const bool may_be_back =
      worker.phase == WorkerPhase::kLost && !worker.given_up && !worker.finished;
  return worker.phase == WorkerPhase::kAbsent || Active(worker) || (may_be_back && !stopped_);
}

bool Shard::OthersFinished(size_t worker) const {
  return std::none_of(workers_.begin(), workers_.end(),
                      [&](const WorkerRecord& w) { return &w != &workers_[worker] && MayPush(w); });
}

std::string Shard::UnfinishedWorkers() const {
  return List([&](const WorkerRecord& w) { return MayPush(w); });
}

bool Shard::done() const {
  bool any = false;
  for (const WorkerRecord& w : workers_) {
    if (w.phase == WorkerPhase::kJoined || w.phase == WorkerPhase::kFinished) return false;
    any |= w.phase == WorkerPhase::kLeft;
  }
  return any && workers_[0].phase == WorkerPhase::kLeft;
}

Status Shard::HoldPushes(const HoldRequest& request, int64_t now_ns) {
  if (config_->mode == Mode::kSync || dense_) {
    return Invalid("only pushes of async and ssp jobs without dense blocks can be held");
  }
  if (!request.hold) {
    hold_.reset();
    return {};
  }
  if (!request.last_pushes.empty() && request.last_pushes.size() != workers_.size()) {
    return Invalid("expected the pushes of " + std::to_string(workers_.size()) +
                   " workers, found " + std::to_string(request.last_pushes.size()));
  }
  if (!hold_) {
    hold_ = {.since_ns = now_ns, .last_pushes = {}};
    for (const WorkerRecord& w : workers_) hold_->last_pushes.push_back(w.received);
  }
  for (size_t i = 0; i < request.last_pushes.size(); ++i) {
    hold_->last_pushes[i] = std::max(hold_->last_pushes[i], request.last_pushes[i]);
  }
  return {};
}

bool Shard::IsHeld(size_t worker, uint64_t sequence) const {
  return hold_ && !stopped_ && sequence > hold_->last_pushes[worker] &&
         sequence == workers_[worker].received + 1;
}

std::string Shard::HoldBlockedOn(int64_t now_ns) const {
  if (!hold_ || stopped_ || now_ns - hold_->since_ns >= options_.rejoin_ns) return "";
  return List([&](const WorkerRecord& w) {
    return w.received < hold_->last_pushes[static_cast<size_t>(&w - workers_.data())] && MayPush(w);
  });
}

Status Shard::Save(const CheckpointRequest& request) {
  if (!open_) return Invalid("there is no model to save yet");
  if (!claim_) return Invalid("checkpoints need a place: expected run_dir");
  // The reply was lost: pushes have gone on since, and must not get into this checkpoint.
  const bool held = std::exchange(hold_, std::nullopt).has_value();
  if (config_->mode != Mode::kSync && !dense_ && !held && saved_ == request.id) return {};
  const bool together = config_->mode == Mode::kSync && config_->replicas_to_aggregate == 0;
  if (dense_ && together && !dense_->AllAt(progress_.step)) {
    return Failed("no checkpoint was written: a worker stopped in the middle of step " +
                  std::to_string(progress_.step + 1) + "; the last one stays");
  }
  RETURN_IF_ERROR(ShardFile::Save(*this, request));
  saved_ = request.id;
  return {};
}

Status Shard::Restore(const RestoreRequest& request) {
  if (!config_) return Invalid("there is no model to restore yet");
  if (open_) return Invalid("the job has begun: nothing can be restored any more");
  return ShardFile::Restore(*this, request);
}

Status Shard::PlaceWorkers(const std::vector<std::string>& states) {
  if (open_) return Invalid("the job has begun: no worker can be placed any more");
  if (states.size() != workers_.size()) {
    return Invalid("expected the places of " + std::to_string(workers_.size()) +
                   " workers, found " + std::to_string(states.size()));
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].received_state = workers_[i].applied_state = states[i];
  }
  return {};
}

std::vector<uint64_t> Shard::SavedCheckpoints() const {
  return ShardFile::List(options_.checkpoints);
}

}  // namespace millrace::ps
