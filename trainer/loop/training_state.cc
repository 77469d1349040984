// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/training_state.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace millrace::trainer {
namespace {

constexpr size_t kHeadNumbers = 3, kSegmentNumbers = 6;

// The one list of names; `visit(name, member)` writes or reads.
template <typename State, typename Visit>
void ForEachMember(State& s, Visit visit) {
  visit("training.steps", s.steps);
  visit("training.examples", s.examples);
  visit("training.seconds", s.seconds);
  visit("training.own_batches", s.own.batches);
  visit("training.own_examples", s.own.examples);
  visit("training.row_loss", s.row_loss);
  visit("training.row_weight", s.row_weight);
  visit("training.total_loss", s.total_loss);
  visit("training.total_weight", s.total_weight);
  visit("training.row_own_examples", s.row_own_examples);
  visit("training.row_own_correct", s.row_own_correct);
  visit("training.own_weight", s.own_weight);
  visit("training.own_positive", s.own_positive);
  visit("training.evaluations", s.evaluations);
  visit("training.evaluated_at", s.evaluated_at);
  visit("training.best_metric", s.early_stop.metric);
  visit("training.best", s.early_stop.best);
  visit("training.best_step", s.early_stop.best_step);
  visit("training.best_examples", s.early_stop.best_examples);
  visit("training.best_metrics", s.early_stop.best_metrics);
  visit("training.evaluations_since_best", s.early_stop.evaluations_since_best);
  visit("training.lowest_logloss", s.lowest_logloss);
  visit("training.lowest_logloss_step", s.lowest_logloss_step);
  visit("training.lowest_logloss_loss", s.lowest_logloss_loss);
}

struct Adder {
  io::StateFields& fields;
  void operator()(const char* name, uint64_t value) const { fields.AddUint(name, value); }
  void operator()(const char* name, double value) const { fields.AddDouble(name, value); }
  void operator()(const char* name, const std::string& value) const { fields.Add(name, value); }
};

// Keeps the first error.
struct Taker {
  const io::StateFields& fields;
  Status& status;

  void operator()(const char* name, uint64_t& value) const { Take(fields.Uint(name), value); }
  void operator()(const char* name, double& value) const { Take(fields.Double(name), value); }
  void operator()(const char* name, std::string& value) const { Take(fields.Text(name), value); }

  template <typename T>
  void Take(const Result<T>& field, T& value) const {
    if (field.ok()) {
      value = *field;
    } else if (status.ok()) {
      status = field.status();
    }
  }
};

}  // namespace

std::string ResumePoint::Encode() const {
  std::vector<uint64_t> numbers = {batches, examples, input_fingerprint};
  for (const StreamSegment& s : segments) {
    numbers.insert(numbers.end(), {s.shard, s.num_shards, s.position.epoch, s.position.rows,
                                   s.position.digest, s.end_epoch});
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]};
}

Result<ResumePoint> ResumePoint::Decode(const std::string& bytes) {
  std::vector<uint64_t> numbers(bytes.size() / sizeof(uint64_t));
  const size_t count = numbers.size();
  if (count * sizeof(uint64_t) != bytes.size() || count < kHeadNumbers ||
      (count - kHeadNumbers) % kSegmentNumbers != 0) {
    return Corrupt("a worker's resume point: expected 24 bytes and 48 for each part, found " +
                   std::to_string(bytes.size()));
  }
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  ResumePoint point = {
      .batches = numbers[0], .examples = numbers[1], .input_fingerprint = numbers[2]};
  for (size_t i = kHeadNumbers; i < count; i += kSegmentNumbers) {
    const uint64_t* n = &numbers[i];
    point.segments.push_back({.shard = n[0],
                              .num_shards = n[1],
                              .position = {.epoch = n[2], .rows = n[3], .digest = n[4]},
                              .end_epoch = n[5]});
  }
  return point;
}

Result<std::vector<ResumePoint>> DivideStreams(const std::vector<std::string>& earlier,
                                               uint64_t workers) {
  std::vector<ResumePoint> points;
  uint64_t examples = 0, fingerprint = 0, next_epoch = 0;
  for (size_t i = 0; i < earlier.size(); ++i) {
    ResumePoint& point = points.emplace_back();
    if (!earlier[i].empty()) {
      ASSIGN_OR_RETURN(point, ResumePoint::Decode(earlier[i]));
    }
    if (point.segments.empty()) {
      point.segments.push_back({.shard = i, .num_shards = earlier.size()});
    }
    examples += point.examples;
    if (point.input_fingerprint != 0) fingerprint = point.input_fingerprint;
    const io::InputPosition& last = point.segments.back().position;
    next_epoch = std::max(next_epoch, last.epoch + (last.rows > 0 ? 1 : 0));
  }
  // As if the examples so far had been divided evenly: max_examples is divided like that.
  std::vector<ResumePoint> divided(workers);
  for (uint64_t w = 0; w < workers; ++w) {
    divided[w].examples = examples / workers + (w < examples % workers ? 1 : 0);
    divided[w].input_fingerprint = fingerprint;
  }
  for (size_t i = 0; i < points.size(); ++i) {
    points[i].segments.back().end_epoch = next_epoch;
    for (const StreamSegment& segment : points[i].segments) {
      if (segment.position.epoch >= segment.end_epoch) continue;
      divided[i % workers].segments.push_back(segment);
    }
  }
  for (uint64_t w = 0; w < workers; ++w) {
    divided[w].segments.push_back(
        {.shard = w, .num_shards = workers, .position = {.epoch = next_epoch}});
  }
  return divided;
}

std::optional<BestEvaluation> BestOf(const TrainingState& state) {
  const EarlyStopState& best = state.early_stop;
  if (best.best_step == 0) return std::nullopt;
  return BestEvaluation{best.metric, best.best_step, best.best_examples, best.best_metrics};
}

void AddTrainingState(const TrainingState& state, io::StateFields& fields) {
  ForEachMember(state, Adder{fields});
}

Result<TrainingState> TrainingStateFrom(const io::StateFields& fields) {
  TrainingState state;
  Status status;
  ForEachMember(state, Taker{fields, status});
  if (!status.ok()) return status;
  return state;
}

std::string EncodeTrainingState(const TrainingState& state) {
  io::StateFields fields;
  AddTrainingState(state, fields);
  return fields.Encode();
}

Result<TrainingState> DecodeTrainingState(const std::string& text) {
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(text));
  return TrainingStateFrom(fields);
}

}  // namespace millrace::trainer
