// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/auto_rate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <unordered_map>
#include <utility>

#include "io/base/pod_vector.h"
#include "io/batch/key_compactor.h"
#include "io/queue/input_queue.h"
#include "io/stream/input_files.h"
#include "io/table/table_reader.h"
#include "profiler/trace.h"
#include "sparse/kernels.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

// The sample. Each trial is a pass over it.
constexpr double kShare = 0.005;          // of the data
constexpr uint64_t kMinRows = 5000;       // at least that many rows or
constexpr uint64_t kMinEntries = 100000;  // that many values, whichever comes first
constexpr uint64_t kMaxRows = 100000;
constexpr uint64_t kMaxEntries = 2000000;
// A sample needs no more, and every row in the shuffle buffer must be read.
constexpr size_t kShuffleCapacity = 8000;
// Of a file, roughly: it decides how many rows are that share.
constexpr double kBytesPerEntry = 9, kBytesPerRow = 20;

constexpr size_t kMaxBatch = 100;
constexpr double kStepsPerPass = 300;  // at least, unless there are fewer rows

constexpr double kDensity = 0.5;  // share of the rows that have a centered feature
constexpr size_t kMaxCenters = 4096;
constexpr uint64_t kMinCenterRows = 100;

// Half decades around the default rate. The best rate is seldom below the default.
constexpr int kStepsDown = 1, kStepsUp = 4;
constexpr int kStepsDownHeldOut = 3;  // the more passes, the lower
constexpr double kSkippedShare = 0.25;
constexpr double kStandardErrors = 2;
// What the first rows say about a rate fades with the rows that follow: the share of the loss by
// which a rate may be worse on a sample that is a small part of the run.
constexpr double kTolerance = 0.05;

// Several passes over small data overfit at the best rate of one pass: rows are held out.
constexpr double kSmallBytes = 8 << 20;         // and less than kMinRows rows
constexpr uint64_t kMaxTrialEntries = 1000000;  // of all passes of a trial
constexpr size_t kFolds = 4;

struct Sample {
  std::vector<CsrBatch> batches;  // compacted, as the input made them
  uint64_t rows = 0;
  uint64_t entries = 0;
  bool complete = false;  // all rows of an epoch
  bool has_values = false;

  double bytes() const {
    return kBytesPerEntry * static_cast<double>(entries) + kBytesPerRow * static_cast<double>(rows);
  }
};

double TotalBytes(const std::vector<std::string>& files) {
  double bytes = 0;
  for (const std::string& file : files) {
    bytes += static_cast<double>(std::max<int64_t>(0, io::FileBytes(file)));
  }
  return bytes;
}

// Of the files, counted up to `most`: it must not depend on the format. A file that cannot be read
// counts as many; the run reports it.
double RowsOf(const io::InputOptions& input, double most) {
  double rows = 0;
  io::Block block;
  for (const std::string& file : input.files) {
    const auto blocks = io::OpenBlocks(file, input.Stream().blocks);
    while (blocks.ok() && rows < most) {
      const Result<bool> more = (*blocks)->Next(block);
      if (!more.ok()) return most;
      if (!*more) break;
      rows += static_cast<double>(block.records.size());
    }
    if (!blocks.ok() || rows >= most) return most;
  }
  return rows;
}

// `max_examples`: that the run trains on; 0: all.
bool IsEnough(const Sample& sample, double total_bytes, uint64_t max_examples) {
  if (sample.rows >= kMaxRows || sample.entries >= kMaxEntries) return true;
  if (sample.rows < kMinRows && sample.entries < kMinEntries) return false;
  const auto rows = static_cast<double>(sample.rows);
  if (max_examples > 0 && rows >= kShare * static_cast<double>(max_examples)) return true;
  return sample.bytes() >= kShare * total_bytes;
}

// The share of a run's rows that the sample has, roughly.
double ShareOf(const Sample& sample, double total_bytes, uint64_t max_examples) {
  if (sample.complete || total_bytes <= 0) return 1;
  const double of_run =
      max_examples > 0 ? static_cast<double>(sample.rows) / static_cast<double>(max_examples) : 0;
  return std::min(1.0, std::max(of_run, sample.bytes() / total_bytes));
}

// The passes over the data that a trial makes: one, or for small data as many as the run.
uint64_t PassesOf(const Sample& sample, const TrainOptions& options) {
  if (!sample.complete || sample.rows >= kMinRows || sample.batches.size() < 2 * kFolds) return 1;
  uint64_t passes = options.train.epochs;
  if (options.max_examples > 0) passes = std::min(passes, options.max_examples / sample.rows);
  const uint64_t most = kMaxTrialEntries / std::max<uint64_t>(1, sample.entries);
  return std::max<uint64_t>(1, std::min(passes, most));
}

// `rows`: as many, or (0) as many as are enough for data of `total_bytes`.
Result<Sample> ReadSample(io::InputOptions input, uint64_t max_examples, uint64_t rows,
                          double total_bytes) {
  TRACE_SCOPE("read_sample", profiler::Cat::kInput);
  input.shard = 0;
  input.num_shards = 1;
  input.start = {};
  input.epochs = 1;
  input.cache_bytes = 0;
  input.compact = true;
  input.shuffle_capacity = std::min(input.shuffle_capacity, kShuffleCapacity);
  input.min_after_dequeue = std::min(input.min_after_dequeue, input.shuffle_capacity / 2);
  ASSIGN_OR_RETURN(const auto queue, io::InputQueue::Open(input));
  Sample sample;
  const CsrBatch* batch = nullptr;
  while (rows > 0 ? sample.rows < rows : !IsEnough(sample, total_bytes, max_examples)) {
    ASSIGN_OR_RETURN(const bool more, queue->Next(batch));
    sample.complete = !more;
    if (!more) break;
    sample.batches.push_back(*batch);
    sample.rows += batch->rows();
    sample.entries += batch->nnz();
    sample.has_values = sample.has_values || !batch->values.empty();
  }
  return sample;
}

// Means of the features that most rows have, with different values.
std::vector<io::ValueCenter> CentersOf(const Sample& sample) {
  struct Moments {
    double sum = 0;
    uint64_t rows = 0;
    float first = 0;
    bool varies = false;
  };
  std::unordered_map<uint64_t, Moments> features;
  for (const CsrBatch& batch : sample.batches) {
    std::vector<Moments> here(batch.keys.size());
    for (size_t i = 0; i < batch.nnz(); ++i) {
      Moments& m = here[batch.cols[i]];
      const float value = batch.values.empty() ? 1.0f : batch.values[i];
      if (m.rows == 0) m.first = value;
      m.varies = m.varies || value != m.first;
      m.sum += static_cast<double>(value);
      ++m.rows;
    }
    for (size_t k = 0; k < here.size(); ++k) {
      Moments& m = features[batch.keys[k]];
      if (m.rows == 0) m.first = here[k].first;
      m.varies = m.varies || here[k].varies || here[k].first != m.first;
      m.sum += here[k].sum;
      m.rows += here[k].rows;
    }
  }
  std::vector<io::ValueCenter> centers;
  const auto rows = static_cast<double>(sample.rows);
  for (const auto& [key, m] : features) {
    if (!m.varies || static_cast<double>(m.rows) < kDensity * rows) continue;
    centers.push_back({key, static_cast<float>(m.sum / rows)});
  }
  std::sort(centers.begin(), centers.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  if (centers.size() > kMaxCenters) centers.resize(kMaxCenters);
  return centers;
}

// The rows that decide on centers: those of the sample. Rows in the order of files have the centers
// of the first file (or as many files as are needed for some rows), so that a run over several
// files chooses as a run over the first one, which others continue.
Result<std::vector<io::ValueCenter>> ChooseCenters(const Sample& sample, io::InputOptions input) {
  if (input.shuffle_capacity > 0) return CentersOf(sample);
  const std::vector<std::string> files = std::exchange(input.files, {});
  Sample first;
  for (size_t i = 0; i < files.size() && first.rows < kMinCenterRows; ++i) {
    input.files.push_back(files[i]);
    ASSIGN_OR_RETURN(first, ReadSample(input, 0, 0, 0));
  }
  return CentersOf(first);
}

size_t BatchSizeFor(const Sample& sample, const io::InputOptions& input) {
  const double most = kStepsPerPass * static_cast<double>(kMaxBatch);
  const double rows = sample.complete ? static_cast<double>(sample.rows) : RowsOf(input, most);
  return AutoBatchSize(rows);
}

double WeightOf(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

bool HasOneClass(const Sample& sample) {
  bool positive = false, negative = false;
  for (const CsrBatch& batch : sample.batches) {
    for (const float label : batch.labels) (label > 0 ? positive : negative) = true;
  }
  return !positive || !negative;
}

// Log-odds of the labels, with half a row more of each.
double InterceptFor(const Sample& sample) {
  double positives = 0.5, negatives = 0.5;
  for (const CsrBatch& batch : sample.batches) {
    for (size_t r = 0; r < batch.rows(); ++r) {
      const double weight = batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[r]);
      (batch.labels[r] > 0 ? positives : negatives) += weight;
    }
  }
  return std::log(positives / negatives);
}

// Replaces keys by numbers from 0 on, also in `ranges`, and returns how many there are: a trial
// needs a small model only. The order of keys stays.
uint64_t NumberKeys(Sample& sample, std::vector<sparse::KeyRange>& ranges) {
  PodVector<uint64_t> all, unique;
  PodVector<uint32_t> numbers;
  for (const CsrBatch& batch : sample.batches) {
    all.insert(all.end(), batch.keys.begin(), batch.keys.end());
  }
  io::KeyCompactor(0).Compact(all, numbers, unique);
  size_t at = 0;
  for (CsrBatch& batch : sample.batches) {
    for (uint64_t& key : batch.keys) key = numbers[at++];
  }
  for (sparse::KeyRange& range : ranges) {
    const auto first = std::lower_bound(unique.begin(), unique.end(), range.first);
    range.first = static_cast<uint64_t>(first - unique.begin());
  }
  return unique.size();
}

// Batches that are not compacted, for stores that are direct.
void Expand(Sample& sample) {
  for (CsrBatch& batch : sample.batches) {
    for (uint32_t& col : batch.cols) col = static_cast<uint32_t>(batch.keys[col]);
    batch.keys.clear();
    batch.compacted = false;
  }
}

double PerWeight(double loss, const CsrBatch& batch) {
  const double weight = WeightOf(batch);
  return weight > 0 ? loss / weight : 0;
}

// The mean loss of each batch before its step, up to the first that is not finite.
Result<std::vector<double>> RunTrial(const Sample& sample, BatchLearner& learner) {
  std::vector<double> losses;
  for (const CsrBatch& batch : sample.batches) {
    ASSIGN_OR_RETURN(const double loss, learner.Learn(batch));
    if (!std::isfinite(loss)) break;
    losses.push_back(PerWeight(loss, batch));
  }
  return losses;
}

// Trains on all batches but every kFolds-th, from `fold` on, and appends the mean losses of these.
Status RunFold(const Sample& sample, size_t fold, uint64_t passes, const sparse::Kernels& kernels,
               BatchLearner& learner, std::vector<double>& losses) {
  for (uint64_t pass = 0; pass < passes; ++pass) {
    for (size_t b = 0; b < sample.batches.size(); ++b) {
      if (b % kFolds == fold) continue;
      ASSIGN_OR_RETURN(const double loss, learner.Learn(sample.batches[b]));
      if (!std::isfinite(loss)) return {};
    }
  }
  PodVector<float> residuals;
  for (size_t b = fold; b < sample.batches.size(); b += kFolds) {
    const CsrBatch& batch = sample.batches[b];
    ASSIGN_OR_RETURN(const std::span<const float> margins, learner.Score(batch));
    residuals.resize(batch.rows());
    const double loss = kernels.loss_and_residuals(margins, batch.labels, batch.weights, residuals);
    if (!std::isfinite(loss)) return {};
    losses.push_back(PerWeight(loss, batch));
  }
  return {};
}

// With three digits: people read a rate and give it again.
double Rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 2);
  return std::round(rate / unit) * unit;
}

// A rate that is not worse on the first rows is too high for factors in the end: they go on to
// learn noise. So a lower one is preferred for them.
constexpr size_t kFactorStepsDown = 1;

int StepsDown(uint64_t passes) { return passes > 1 ? kStepsDownHeldOut : kStepsDown; }

struct Trials {
  std::vector<double> rates;
  std::vector<std::vector<double>> losses;
};

// Of one trial, with `options.update.rate`.
Result<std::unique_ptr<sparse::LocalStore>> NewStore(const TrainOptions& options) {
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(options.shape, options.update));
  if (options.shape.intercept) {
    RETURN_IF_ERROR(store->LoadWeight(io::kInterceptKey, static_cast<float>(options.intercept)));
  }
  return store;
}

// With one pass, progressive losses by batch; with several, held-out losses, fold by fold.
Result<std::vector<double>> TryRate(const TrainOptions& options, const Sample& sample,
                                    uint64_t passes, const sparse::Kernels& kernels) {
  std::vector<double> losses;
  for (size_t fold = 0; fold < (passes > 1 ? kFolds : 1); ++fold) {
    ASSIGN_OR_RETURN(const auto store, NewStore(options));
    const auto learner = MakeLocalLearner(*store, kernels, true);
    if (passes == 1) return RunTrial(sample, *learner);
    RETURN_IF_ERROR(RunFold(sample, fold, passes, kernels, *learner, losses));
  }
  return losses;
}

Result<Trials> RunTrials(TrainOptions options, Sample sample, uint64_t passes) {
  TRACE_SCOPE("try_rates", profiler::Cat::kCompute);
  Trials trials;
  options.shape.num_features = NumberKeys(sample, options.update.key_groups.ranges);
  const double middle = options.update.Rate();
  for (int step = -StepsDown(passes); step <= kStepsUp; ++step) {
    trials.rates.push_back(Rounded(middle * std::pow(10, 0.5 * step)));
  }
  ASSIGN_OR_RETURN(const auto store, NewStore(options));
  if (store->direct()) Expand(sample);
  ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName("auto"));
  trials.losses.resize(trials.rates.size());
  std::vector<Status> statuses(trials.rates.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    const size_t count = std::clamp<size_t>(options.train.threads, 1, trials.rates.size());
    for (size_t t = 0; t < count; ++t) {
      threads.emplace_back([&] {
        profiler::NameThread("try_rates");
        for (size_t i = next++; i < trials.rates.size(); i = next++) {
          TrainOptions trial = options;
          trial.update.rate = trials.rates[i];
          auto losses = TryRate(trial, sample, passes, *kernels);
          statuses[i] = losses.status();
          if (losses.ok()) trials.losses[i] = std::move(*losses);
        }
      });
    }
  }
  for (const Status& status : statuses) RETURN_IF_ERROR(status);
  return trials;
}

double MeanOf(const std::vector<double>& losses, size_t begin, size_t end) {
  if (losses.size() < end) return std::numeric_limits<double>::infinity();
  return std::accumulate(losses.begin() + static_cast<ptrdiff_t>(begin),
                         losses.begin() + static_cast<ptrdiff_t>(end), 0.0) /
         static_cast<double>(end - begin);
}

struct JudgedRange {
  size_t begin = 0, end = 0;  // batches
};
JudgedRange Judged(const std::vector<std::vector<double>>& losses) {
  size_t batches = 0;
  for (const auto& list : losses) batches = std::max(batches, list.size());
  return {static_cast<size_t>(kSkippedShare * static_cast<double>(batches)), batches};
}

// Whether `losses` are worse than `best` beyond their noise.
bool IsWorse(const std::vector<double>& losses, const std::vector<double>& best,
             JudgedRange range) {
  if (losses.size() < range.end) return true;
  const auto count = static_cast<double>(range.end - range.begin);
  double mean = 0, squares = 0;
  for (size_t b = range.begin; b < range.end; ++b) mean += (losses[b] - best[b]) / count;
  for (size_t b = range.begin; b < range.end; ++b) {
    const double deviation = losses[b] - best[b] - mean;
    squares += deviation * deviation;
  }
  return count < 2 ? false : mean > kStandardErrors * std::sqrt(squares) / count;
}

size_t ChooseIn(JudgedRange range, const std::vector<std::vector<double>>& losses, size_t middle,
                double tolerance) {
  if (range.end == 0) return middle;
  size_t best = middle;
  for (size_t i = 0; i < losses.size(); ++i) {
    const double loss = MeanOf(losses[i], range.begin, range.end);
    if (loss < MeanOf(losses[best], range.begin, range.end)) best = i;
  }
  size_t chosen = best;
  const double good = MeanOf(losses[best], range.begin, range.end) * (1 + tolerance);
  const auto is_good = [&](size_t i) {
    return MeanOf(losses[i], range.begin, range.end) <= good ||
           !IsWorse(losses[i], losses[best], range);
  };
  const auto distance = [&](size_t i) { return i > middle ? i - middle : middle - i; };
  for (size_t i = 0; i < losses.size(); ++i) {
    if (distance(i) < distance(chosen) && is_good(i)) chosen = i;
  }
  return chosen;
}

}  // namespace

size_t AutoBatchSize(double rows) {
  return static_cast<size_t>(std::clamp(rows / kStepsPerPass, 1.0, static_cast<double>(kMaxBatch)));
}

size_t ChooseTrial(const std::vector<std::vector<double>>& losses, size_t middle,
                   double tolerance) {
  return ChooseIn(Judged(losses), losses, middle, tolerance);
}

void ApplyStart(const StartChoice& choice, TrainOptions& options) {
  options.update.rate = choice.rate;
  options.update.normalize = choice.normalize;
  options.update.raw_values = choice.raw_values;
  options.update.centers = choice.centers;
  options.train.rows.centers = options.test.rows.centers = choice.centers;
  options.train.batch_size = choice.batch_size;
  options.intercept = choice.intercept;
}

Result<StartChoice> ChooseStart(const TrainOptions& options) {
  const bool tries_rates = options.update.rate == 0;
  StartChoice choice = {.rate = options.update.Rate(),
                        .normalize = options.normalize == Normalize::kOn,
                        .raw_values = options.normalize == Normalize::kOff,
                        .batch_size = options.train.batch_size};
  RETURN_IF_ERROR(io::CheckInputFiles(options.train.files));
  if (!io::CheckReadableAgain(options.train.files, "").ok()) {
    choice.normalize = options.normalize != Normalize::kOff && options.hogwild <= 1;
    choice.raw_values = !choice.normalize;
    if (tries_rates) {
      choice.note = "the learning rate is the default " + io::NumberText(choice.rate) +
                    ": rates are tried on the first rows, and this input cannot be read twice";
    }
    return choice;
  }
  if (!tries_rates && options.normalize == Normalize::kOff && !options.auto_batch_size) {
    return choice;
  }
  TrainOptions chosen = options;
  const double total_bytes = TotalBytes(options.train.files);
  const auto min_rows = static_cast<double>(kMinRows);
  const bool small = tries_rates && options.train.epochs > 1 && total_bytes <= kSmallBytes &&
                     RowsOf(options.train, min_rows) < min_rows;
  Result<Sample> read =
      ReadSample(options.train, options.max_examples, small ? kMinRows : 0, total_bytes);
  if (read.status().code() == Code::kCancelled) return read.status();
  // The run reads the same rows first, and its message says what to do about them.
  if (!read.ok() || read->rows == 0) return choice;
  Sample sample = std::move(*read);
  choice.rows = sample.rows;
  choice.normalize =
      options.hogwild <= 1 && (options.normalize == Normalize::kOn ||
                               (options.normalize == Normalize::kAuto && sample.has_values));
  choice.raw_values = !choice.normalize && (choice.raw_values || sample.has_values);
  const bool may_center = options.shape.factors.kind != sparse::ModelKind::kFfm;
  if (choice.normalize && options.shape.intercept && may_center) {
    ASSIGN_OR_RETURN(choice.centers, ChooseCenters(sample, options.train));
  }
  if (options.auto_batch_size) {
    choice.batch_size = BatchSizeFor(sample, options.train);
  }
  // Every rate is good while all labels are the same: rows that are sorted by their label, or few
  // positives.
  if (tries_rates && !sample.complete && HasOneClass(sample)) {
    choice.note = "the learning rate is the default " + io::NumberText(choice.rate) +
                  ": the first " + std::to_string(sample.rows) +
                  " rows, on which rates are tried, have the same label. Rows that are sorted by "
                  "their label train badly: shuffle the files, or name one for each label";
    return choice;
  }
  if (!tries_rates) return choice;
  const double share = ShareOf(sample, total_bytes, options.max_examples);
  if (options.shape.intercept) choice.intercept = InterceptFor(sample);
  ApplyStart(choice, chosen);
  if (!choice.centers.empty() || choice.batch_size != options.train.batch_size) {
    const bool complete = sample.complete;
    ASSIGN_OR_RETURN(sample,
                     ReadSample(chosen.train, options.max_examples, choice.rows, total_bytes));
    sample.complete = complete;
  }
  chosen.update.rate = 0;
  choice.passes = PassesOf(sample, options);
  const bool held_out = choice.passes > 1;
  const JudgedRange all = {0, sample.batches.size()};
  ASSIGN_OR_RETURN(const Trials trials, RunTrials(chosen, std::move(sample), choice.passes));
  const JudgedRange range = held_out ? all : Judged(trials.losses);
  const bool has_factors = options.shape.factors.kind != sparse::ModelKind::kLr;
  const size_t preferred =
      static_cast<size_t>(StepsDown(choice.passes)) - (has_factors ? kFactorStepsDown : 0);
  choice.rate = trials.rates[ChooseIn(range, trials.losses, preferred, kTolerance * (1 - share))];
  for (size_t i = 0; i < trials.rates.size(); ++i) {
    choice.trials.push_back({trials.rates[i], MeanOf(trials.losses[i], range.begin, range.end)});
  }
  return choice;
}

Result<StartChoice> ChooseContinuedStart(TrainOptions options) {
  const sparse::UpdateOptions earlier = options.update;
  if (earlier.normalize && options.normalize == Normalize::kOff) {
    return Invalid("normalize: the earlier run has normalised values: expected on, found off");
  }
  if (earlier.raw_values && options.normalize == Normalize::kOn) {
    return Invalid(
        "normalize: the earlier run was trained on values as they are, whose scales are not known: "
        "expected off, found on");
  }
  StartChoice choice = {.rate = earlier.Rate(),
                        .normalize = earlier.normalize,
                        .raw_values = earlier.raw_values,
                        .centers = earlier.centers,
                        .batch_size = options.train.batch_size};
  if (earlier.normalize || earlier.raw_values) return choice;
  options.update.rate = choice.rate;  // no other is tried
  options.auto_batch_size = false;
  ASSIGN_OR_RETURN(choice, ChooseStart(options));
  // The factors of the earlier run are those of rows without centers.
  if (options.shape.factors.kind != sparse::ModelKind::kLr) choice.centers.clear();
  return choice;
}

}  // namespace millrace::trainer
