// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/synth_writer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "tools/common/program.h"
#include "tools/common/progress.h"

namespace millrace::synth {
namespace {

using tools::Interrupted;
using tools::Progress;

constexpr uint64_t kRowsPerStep = 1024;

struct Shard {
  Part part;
  std::string path;
  uint64_t first_row, end_row;
  // Results:
  uint64_t positives = 0;
  uint64_t bytes = 0;
  BayesScore score;   // test part only
  BayesScore linear;  // test part of a model with interactions
};

std::vector<Shard> Shards(const SynthFiles& files, Part part, const char* base, uint64_t rows,
                          uint64_t count) {
  std::vector<Shard> shards;
  const auto row_at = [&](uint64_t shard) {
    return static_cast<uint64_t>(static_cast<__uint128_t>(rows) * shard / count);
  };
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = io::ShardName(base, i, count, files.writer.compression);
    shards.push_back({part, files.folder + "/" + name, row_at(i), row_at(i + 1), 0, 0, {}, {}});
  }
  return shards;
}

// One thread's work on a shard.
class ShardWriter {
 public:
  ShardWriter(const SynthModel& model, const SynthFiles& files, io::RecordWriter writer,
              Shard& shard)
      : model_(model), files_(files), writer_(std::move(writer)), shard_(shard) {
    if (files.values) values_.assign(model.cardinalities().size(), 1.0f);
  }

  Status WriteRows(uint64_t first, uint64_t end) {
    frames_.clear();
    for (uint64_t i = first; i < end; ++i) {
      model_.Draw(shard_.part, i, row_);
      io::EncodeSparseExample(files_.names, row_.label ? 1 : 0, row_.keys, values_, record_);
      io::AppendFrame(record_, frames_);
      shard_.positives += row_.label ? 1 : 0;
      if (shard_.part != Part::kTest) continue;
      shard_.score.Add(row_.margin, row_.label);
      if (model_.strength() > 0) shard_.linear.Add(row_.linear_margin, row_.label);
    }
    return writer_.AppendFramed(frames_);
  }

  Status Close() {
    shard_.bytes = writer_.bytes();
    return writer_.Close();
  }

 private:
  const SynthModel& model_;
  const SynthFiles& files_;
  io::RecordWriter writer_;
  Shard& shard_;
  SynthRow row_;
  std::vector<float> values_;
  std::string record_, frames_;
};

// The remaining shards, and the first failure.
class Job {
 public:
  Job(const SynthModel& model, const SynthFiles& files, std::vector<Shard>& shards,
      Progress& progress)
      : model_(model), files_(files), shards_(shards), progress_(progress) {}

  void Work() {
    for (size_t i = next_++; i < shards_.size() && !stopped_; i = next_++)
      Record(Write(shards_[i]));
  }

  const Status& failure() const { return failure_; }  // once all threads are done

 private:
  Status Write(Shard& shard) {
    ASSIGN_OR_RETURN(auto record_writer, io::RecordWriter::Create(shard.path, files_.writer));
    ShardWriter writer(model_, files_, std::move(record_writer), shard);
    for (uint64_t row = shard.first_row; row < shard.end_row; row += kRowsPerStep) {
      if (stopped_) return {};
      if (Interrupted()) return Cancelled("interrupted; unfinished files were removed");
      const uint64_t end = std::min(row + kRowsPerStep, shard.end_row);
      RETURN_IF_ERROR(writer.WriteRows(row, end));
      progress_.Add(end - row);
    }
    return writer.Close();
  }

  void Record(const Status& status) {
    if (status.ok()) return;
    const std::scoped_lock lock(mutex_);
    if (failure_.ok()) failure_ = status;
    stopped_ = true;
  }

  const SynthModel& model_;
  const SynthFiles& files_;
  std::vector<Shard>& shards_;  // each is written by the one thread that took it
  Progress& progress_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // guards failure_
  Status failure_;
};

void RunThreads(Job& job, size_t count) {
  std::vector<std::jthread> threads;
  for (size_t t = 1; t < count; ++t) threads.emplace_back([&job] { job.Work(); });
  job.Work();
}

SynthResult Collected(const std::vector<Shard>& shards) {
  SynthResult result;
  for (const Shard& shard : shards) {
    const bool test = shard.part == Part::kTest;
    (test ? result.test_files : result.train_files).push_back(shard.path);
    result.bytes += shard.bytes;
    if (test) {
      result.test.Merge(shard.score);
      result.test_linear.Merge(shard.linear);
    } else {
      result.train_positives += shard.positives;
    }
  }
  return result;
}

}  // namespace

Result<SynthResult> WriteSynth(const SynthModel& model, const SynthFiles& files) {
  std::vector<Shard> shards = Shards(files, Part::kTrain, "train", files.rows, files.shards);
  if (files.test_rows > 0) {
    const auto test = Shards(files, Part::kTest, "test", files.test_rows, files.test_shards);
    shards.insert(shards.begin(), test.begin(), test.end());
  }
  Progress progress({.work = "writing", .unit = "rows", .total = files.rows + files.test_rows});
  Job job(model, files, shards, progress);
  RunThreads(job, std::min<size_t>(files.threads, shards.size()));
  RETURN_IF_ERROR(job.failure());
  return Collected(shards);
}

}  // namespace millrace::synth
