// SPDX-License-Identifier: Apache-2.0
// libmillrace-score: the time of a row, of batches on two threads, of one context with 100
// candidates against 100 full rows, of opening a model, and of calls while the model is replaced.
//
//   score_bench [SECONDS [FEATURES]]
//
// SECONDS: of each measurement. FEATURES: of the model; rows have 39 keys, as in bench_data.h. Its
// files are written to the temporary folder and removed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/base/random.h"
#include "io/features/feature_spec.h"
#include "io/rows/row_format.h"
#include "millrace/score.h"
#include "sparse/score/serving_writer.h"
#include "tests/bench/bench_data.h"
#include "trainer/model/model.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kRows = 50000;  // different ones
constexpr size_t kBatch = 100;
constexpr size_t kContextKeys = 30;  // of bench::kFields; candidates have the others
constexpr size_t kThreads = 2;
constexpr uint64_t kLargeFeatures = 250000000;  // 1 GB

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "score_bench: %s\n", what.c_str());
  std::exit(1);
}

double Seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A model with a weight for every key; with a spec of `spec` unless that is empty.
void WriteModel(const std::string& path, uint64_t features, score::WeightsType type,
                const std::string& spec) {
  trainer::ModelInfo info = {.num_features = features, .rule = "sgd"};
  if (!spec.empty()) {
    const auto parsed = io::ParseFeatureSpec(spec, "spec");
    Check(parsed.ok(), parsed.status().message());
    io::RowFormat rows = {.format = io::InputFormat::kJson};
    const auto plan = io::EncoderPlan::Make(*parsed);
    Check(plan.ok(), plan.status().message());
    rows.rows.features = *plan;
    info.num_features = rows.rows.num_features = parsed->num_features();
    info.input = rows;
  }
  io::StateFields fields;
  trainer::AddModelInfo(info, fields);
  auto writer =
      score::ServingWriter::Create(path, score::DenseShape(info.num_features, 1, type), fields);
  Check(writer.ok(), writer.status().message());
  Random random(1);
  for (uint64_t key = 0; key < info.num_features; ++key) {
    const float weight = static_cast<float>(random.Uniform()) - 0.5f;
    Check(writer->Add(key, {&weight, 1}).ok(), "a weight");
  }
  const Status finished = writer->Finish();
  Check(finished.ok(), finished.message());
}

class Scorer {
 public:
  explicit Scorer(const std::string& path, uint32_t flags) {
    millrace_score_error error = {};
    const int code = millrace_score_open(path.c_str(), flags, &scorer_, &error);
    Check(code == 0, error.message);
  }
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;
  ~Scorer() { millrace_score_close(scorer_); }
  millrace_scorer* get() const { return scorer_; }

 private:
  millrace_scorer* scorer_ = nullptr;
};

// Rows of bench::kFields keys each.
struct KeyRows {
  explicit KeyRows(uint64_t features) : keys(bench::MakeKeys(kRows, 5)) {
    for (uint64_t& key : keys) key %= features;
    for (size_t r = 0; r <= kBatch; ++r) {
      begin.push_back(r * bench::kFields);
      own_begin.push_back(r * (bench::kFields - kContextKeys));
    }
    for (size_t r = 0; r < kRows; ++r) {
      const uint64_t* row = &keys[r * bench::kFields];
      own.insert(own.end(), row + kContextKeys, row + bench::kFields);
    }
  }
  // `rows` rows from row r on, at most kBatch.
  millrace_keys At(size_t r, size_t rows) const {
    return {rows, begin.data(), &keys[r * bench::kFields], nullptr, nullptr};
  }
  // The last keys of the rows, and the first ones of row r.
  millrace_keys CandidatesAt(size_t r) const {
    return {kBatch, own_begin.data(), &own[r * (bench::kFields - kContextKeys)], nullptr, nullptr};
  }
  millrace_keys ContextAt(size_t r) const {
    return {1, context_begin, &keys[r * bench::kFields], nullptr, nullptr};
  }

  std::vector<uint64_t> keys, own, begin, own_begin;
  static constexpr uint64_t context_begin[] = {0, kContextKeys};
};

// Seconds of each of some calls, in turns with others.
double Percentile(std::vector<float>& times, double share) {
  Check(!times.empty(), "no call");
  const auto at =
      std::min(times.size() - 1, static_cast<size_t>(share * static_cast<double>(times.size())));
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(at), times.end());
  return static_cast<double>(times[at]);
}

// Times of call(i) for i = 0, 1, ... until `seconds` are over.
std::vector<float> TimesOf(double seconds, const std::function<void(size_t)>& call) {
  std::vector<float> times;
  const auto begin = Clock::now();
  auto last = begin;
  for (size_t i = 0; i % 64 != 0 || Seconds(begin) < seconds; ++i) {
    call(i);
    const auto now = Clock::now();
    times.push_back(std::chrono::duration<float>(now - last).count());
    last = now;
  }
  return times;
}

void Rows(const std::string& what, millrace_scorer* scorer, const KeyRows& rows, double seconds) {
  auto times = TimesOf(seconds, [&](size_t i) {
    const millrace_keys row = rows.At(i % kRows, 1);
    double score;
    Check(millrace_score_keys(scorer, &row, 0, &score, nullptr, nullptr) == 0, "a row");
  });
  std::atomic<uint64_t> scored = 0;
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::vector<double> scores(kBatch);
        for (size_t i = t; Seconds(begin) < seconds; i += kThreads) {
          const millrace_keys batch = rows.At(i * kBatch % kRows, kBatch);
          Check(millrace_score_keys(scorer, &batch, 0, scores.data(), nullptr, nullptr) == 0,
                "a batch");
          scored += kBatch;
        }
      });
    }
  }
  std::printf(
      "%-22s row: p50 %4.0f ns, p99 %5.0f ns   batches of %zu, %zu threads: %5.2f M rows/s\n",
      what.c_str(), 1e9 * Percentile(times, 0.5), 1e9 * Percentile(times, 0.99), kBatch, kThreads,
      1e-6 * static_cast<double>(scored) / Seconds(begin));
}

// Two ways to score the same rows, in turns.
void Compare(const std::string& what, double seconds, const std::function<void(size_t)>& full,
             const std::function<void(size_t)>& shared) {
  std::vector<float> times[2];
  for (int round = 0; round < 10; ++round) {
    for (const auto& [call, to] : {std::pair(&full, &times[0]), std::pair(&shared, &times[1])}) {
      const auto more = TimesOf(seconds / 20, *call);
      to->insert(to->end(), more.begin(), more.end());
    }
  }
  const double all = Percentile(times[0], 0.5), part = Percentile(times[1], 0.5);
  std::printf(
      "%-22s 100 full rows: p50 %6.2f us   a context with 100 candidates: %6.2f us   ratio %.1f\n",
      what.c_str(), 1e6 * all, 1e6 * part, all / part);
}

void KeyCandidates(const std::string& what, millrace_scorer* scorer, const KeyRows& rows,
                   double seconds) {
  std::vector<double> scores(kBatch);
  // Both have the keys of the context of the first row.
  std::vector<uint64_t> joined;
  for (size_t r = 0; r + kBatch <= kRows; ++r) {
    const uint64_t* context = &rows.keys[r / kBatch * kBatch * bench::kFields];
    joined.insert(joined.end(), context, context + kContextKeys);
    const uint64_t* own = &rows.own[r * (bench::kFields - kContextKeys)];
    joined.insert(joined.end(), own, own + bench::kFields - kContextKeys);
  }
  const size_t batches = joined.size() / bench::kFields / kBatch;
  Compare(
      what, seconds,
      [&](size_t i) {
        millrace_keys batch = rows.At(0, kBatch);
        batch.keys = &joined[i % batches * kBatch * bench::kFields];
        Check(millrace_score_keys(scorer, &batch, 0, scores.data(), nullptr, nullptr) == 0, "rows");
      },
      [&](size_t i) {
        const size_t r = i % batches * kBatch;
        const millrace_keys context = rows.ContextAt(r), candidates = rows.CandidatesAt(r);
        Check(millrace_score_key_candidates(scorer, &context, &candidates, 0, scores.data(),
                                            nullptr, nullptr) == 0,
              "candidates");
      });
}

// 39 fields, and two crosses of a field of the context with one of the candidate.
std::string Spec() {
  std::string spec = R"({"hash_bits": 22, "fields": [)";
  for (size_t f = 0; f < bench::kFields; ++f)
    spec += R"({"name": "f)" + std::to_string(f) + R"("}, )";
  return spec + R"({"name": "f0 x f30", "rule": "cross", "of": ["f0", "f30"]},
                   {"name": "f1 x f31", "rule": "cross", "of": ["f1", "f31"]}]})";
}

void FieldCandidates(millrace_scorer* scorer, const KeyRows& rows, double seconds) {
  std::vector<std::string> names, texts;
  for (size_t f = 0; f < bench::kFields; ++f) names.push_back("f" + std::to_string(f));
  constexpr size_t kTextRows = 2000;
  for (size_t i = 0; i < kTextRows * bench::kFields; ++i)
    texts.push_back(std::to_string(rows.keys[i]));
  const auto field = [&](size_t r, size_t f) {
    millrace_field made = {};
    const std::string& text = texts[r * bench::kFields + f];
    made.name = names[f].data();
    made.name_size = names[f].size();
    made.value.text = {text.data(), text.size()};
    return made;
  };
  struct Request {
    std::vector<millrace_field> full, context, own;
  };
  std::vector<Request> requests(kTextRows / kBatch);
  for (size_t q = 0; q < requests.size(); ++q) {
    for (size_t c = 0; c < kBatch; ++c) {
      for (size_t f = 0; f < bench::kFields; ++f) {
        const bool shared = f < kContextKeys;
        const millrace_field made = field(q * kBatch + (shared ? 0 : c), f);
        requests[q].full.push_back(made);
        if (!shared) requests[q].own.push_back(made);
        if (shared && c == 0) requests[q].context.push_back(made);
      }
    }
  }
  std::vector<double> scores(kBatch);
  Compare(
      "named fields", seconds,
      [&](size_t i) {
        const millrace_rows all = {kBatch, rows.begin.data(),
                                   requests[i % requests.size()].full.data()};
        Check(millrace_score_rows(scorer, &all, 0, scores.data(), nullptr, nullptr) == 0, "rows");
      },
      [&](size_t i) {
        const Request& request = requests[i % requests.size()];
        const millrace_rows context = {1, KeyRows::context_begin, request.context.data()};
        const millrace_rows own = {kBatch, rows.own_begin.data(), request.own.data()};
        Check(millrace_score_row_candidates(scorer, &context, &own, 0, scores.data(), nullptr,
                                            nullptr) == 0,
              "candidates");
      });
}

// Calls on all threads while the model is replaced every 100 ms, and without that.
void Swaps(const std::string (&paths)[2], const KeyRows& rows, size_t batch, double seconds) {
  for (const bool swap : {false, true}) {
    const Scorer scorer(paths[0], MILLRACE_SCORE_PRELOAD);
    std::vector<float> times[kThreads], all;
    std::atomic<uint64_t> failed = 0;
    std::vector<float> swap_times;
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          std::vector<double> scores(kBatch);
          times[t] = TimesOf(seconds, [&](size_t i) {
            const millrace_keys some =
                rows.At((i + t * kRows / kThreads) * batch % (kRows - kBatch), batch);
            failed +=
                millrace_score_keys(scorer.get(), &some, 0, scores.data(), nullptr, nullptr) != 0;
          });
        });
      }
      const auto begin = Clock::now();
      for (size_t i = 1; swap && Seconds(begin) < seconds; ++i) {
        std::this_thread::sleep_until(begin + i * std::chrono::milliseconds(100));
        const auto before = Clock::now();
        failed += millrace_score_swap(scorer.get(), paths[i % 2].c_str(), MILLRACE_SCORE_PRELOAD,
                                      nullptr) != 0;
        swap_times.push_back(static_cast<float>(Seconds(before)));
      }
    }
    for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
    const double median = Percentile(all, 0.5);
    const auto slow =
        std::count_if(all.begin(), all.end(), [&](float t) { return t > 20 * median; });
    std::printf(
        "%3zu rows a call, %s: %8zu calls, %llu failed, p50 %6.2f us, p99.9 %7.2f us, %.4f %% "
        "above "
        "20 medians",
        batch, swap ? "a swap each 100 ms" : "no swaps          ", all.size(),
        static_cast<unsigned long long>(failed.load()), 1e6 * median, 1e6 * Percentile(all, 0.999),
        100 * static_cast<double>(slow) / static_cast<double>(all.size()));
    if (swap)
      std::printf("; %zu swaps, p50 %.1f ms", swap_times.size(), 1e3 * Percentile(swap_times, 0.5));
    std::printf("\n");
  }
}

void Open(const std::string& path, double seconds) {
  auto times = TimesOf(seconds / 4, [&](size_t) { const Scorer scorer(path, 0); });
  std::printf("open %.2f GB: p50 %.2f ms, longest %.2f ms\n",
              static_cast<double>(std::filesystem::file_size(path)) * 1e-9,
              1e3 * Percentile(times, 0.5), 1e3 * Percentile(times, 1));
}

int Main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  const uint64_t features = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : bench::kNumFeatures;
  Check(features > 0 && argc <= 3, "usage: score_bench [SECONDS [FEATURES]]");
  std::string folder = (std::filesystem::temp_directory_path() / "score_bench.XXXXXX").string();
  Check(::mkdtemp(folder.data()) != nullptr, folder);
  const std::string f32[2] = {folder + "/f32", folder + "/again"};
  const std::string f16 = folder + "/f16", spec = folder + "/spec", large = folder + "/large";
  WriteModel(f32[0], features, score::WeightsType::kF32, "");
  WriteModel(f32[1], features, score::WeightsType::kF32, "");
  WriteModel(f16, features, score::WeightsType::kF16, "");
  WriteModel(spec, 0, score::WeightsType::kF32, Spec());
  const KeyRows rows(features);
  for (const auto& [path, name] : {std::pair(&f32[0], "f32"), std::pair(&f16, "f16")}) {
    Rows(std::string(name) + ", mapped", Scorer(*path, MILLRACE_SCORE_PRELOAD).get(), rows,
         seconds);
    Rows(std::string(name) + ", copied", Scorer(*path, MILLRACE_SCORE_COPY).get(), rows, seconds);
  }
  KeyCandidates("keys", Scorer(f32[0], MILLRACE_SCORE_PRELOAD).get(), rows, seconds);
  FieldCandidates(Scorer(spec, MILLRACE_SCORE_PRELOAD).get(), rows, seconds);
  Swaps(f32, rows, 1, seconds);
  Swaps(f32, rows, kBatch, seconds);
  Open(f32[0], seconds);
  if (features == bench::kNumFeatures) {
    WriteModel(large, kLargeFeatures, score::WeightsType::kF32, "");
    Open(large, seconds);
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
