// SPDX-License-Identifier: Apache-2.0
#include "tools/python/learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/base/random.h"
#include "sparse/kernels.h"

namespace millrace::python {
namespace {

using io::CsrBatch;

constexpr size_t kScoredRows = 1000;  // of a batch
constexpr uint64_t kOrderStream = 19;

double WeightOf(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

Status Diverged(uint64_t rows, double loss, double rate) {
  return Invalid("after " + std::to_string(rows) + " rows: expected a finite loss, found " +
                 io::NumberText(loss) + ": the model has diverged; try a learning_rate below " +
                 io::NumberText(rate) + ", or normalize=True");
}

// The batches of one pass, each with the batch after it.
class Pass {
 public:
  Pass(const CsrRows& rows, BatchForm form, size_t batch_size, std::span<const uint32_t> order)
      : cutter_(rows, form), rows_(rows.rows()), batch_size_(batch_size), order_(order) {}

  // Null at the end. Valid until the next call.
  Result<const CsrBatch*> Next(bool want_next) {
    std::swap(now_, next_);
    if (!std::exchange(has_next_, false)) {
      if (at_ == rows_) return nullptr;
      RETURN_IF_ERROR(Cut(batches_[now_]));
    }
    if (want_next && at_ < rows_) {
      RETURN_IF_ERROR(Cut(batches_[next_]));
      has_next_ = true;
    }
    return &batches_[now_];
  }
  const CsrBatch* next() const { return has_next_ ? &batches_[next_] : nullptr; }

 private:
  Status Cut(CsrBatch& batch) {
    const size_t count = std::min(batch_size_, rows_ - at_);
    RETURN_IF_ERROR(cutter_.Cut(at_, count, order_, batch));
    at_ += count;
    return {};
  }

  BatchCutter cutter_;
  size_t rows_, batch_size_, at_ = 0;
  std::span<const uint32_t> order_;
  std::array<CsrBatch, 2> batches_;
  size_t now_ = 0, next_ = 1;
  bool has_next_ = false;
};

}  // namespace

std::vector<uint32_t> ShuffledOrder(size_t rows, uint64_t seed, uint64_t epoch) {
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  Random random(DeriveSeed(seed, kOrderStream, epoch));
  for (size_t i = rows; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

Learner::Learner(Private, std::unique_ptr<sparse::LocalStore> store)
    : store_(std::move(store)),
      learner_(trainer::MakeLocalLearner(*store_, sparse::NativeKernels(), true)) {}

Result<std::unique_ptr<Learner>> Learner::Create(const sparse::ModelShape& shape,
                                                 const sparse::UpdateOptions& update) {
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(shape, update));
  return std::make_unique<Learner>(Private{}, std::move(store));
}

BatchForm Learner::Form() const {
  if (!learner_->wants_compact_batches()) return BatchForm::kIndices;
  return io::NeedsWideKeys(store_->shape().num_features) ? BatchForm::kCompactHashed
                                                         : BatchForm::kCompact;
}

Status Learner::CheckColumns(const CsrRows& rows) const {
  RETURN_IF_ERROR(rows.Validate());
  const uint64_t num_features = store_->shape().num_features;
  if (num_features == 0 || rows.num_columns == num_features) return {};
  return Invalid("columns: expected " + std::to_string(num_features) + ", found " +
                 std::to_string(rows.num_columns));
}

Result<double> Learner::Train(const CsrRows& rows, const TrainPasses& passes,
                              const OnStep& on_step) {
  RETURN_IF_ERROR(CheckColumns(rows));
  if (rows.labels.empty() && rows.rows() > 0) return Invalid("labels: expected one a row");
  if (passes.batch_size == 0) return Invalid("batch_size: expected at least 1, found 0");
  double loss = 0, weight = 0;
  uint64_t done = 0;
  std::vector<uint32_t> order;
  for (uint64_t epoch = 0; epoch < passes.epochs; ++epoch) {
    if (passes.shuffle) order = ShuffledOrder(rows.rows(), passes.seed, epoch);
    Pass pass(rows, Form(), passes.batch_size, order);
    while (true) {
      ASSIGN_OR_RETURN(const CsrBatch* batch, pass.Next(learner_->wants_next()));
      if (!batch) break;
      ASSIGN_OR_RETURN(const double batch_loss, learner_->Learn(*batch, pass.next()));
      loss += batch_loss;
      weight += WeightOf(*batch);
      done += batch->rows();
      examples_ += batch->rows();
      if (!std::isfinite(batch_loss)) {
        return Diverged(done, batch_loss, store_->options().Rate());
      }
      RETURN_IF_ERROR(on_step(done, weight > 0 ? loss / weight : 0));
    }
  }
  return weight > 0 ? loss / weight : 0.0;
}

Status Learner::Margins(const CsrRows& rows, std::span<double> margins, const OnStep& on_step) {
  RETURN_IF_ERROR(CheckColumns(rows));
  if (margins.size() != rows.rows()) return Invalid("margins: expected one a row");
  Pass pass(rows, Form(), kScoredRows, {});
  size_t done = 0;
  while (true) {
    ASSIGN_OR_RETURN(const CsrBatch* batch, pass.Next(false));
    if (!batch) return {};
    ASSIGN_OR_RETURN(const std::span<const float> scored, learner_->Score(*batch));
    std::copy(scored.begin(), scored.end(), margins.begin() + static_cast<ptrdiff_t>(done));
    done += batch->rows();
    RETURN_IF_ERROR(on_step(done, 0));
  }
}

Status Learner::LoadWeights(const std::string& path) { return trainer::WarmStart(path, *store_); }

Status Learner::Save(const std::string& path, trainer::ModelFormat format,
                     const std::shared_ptr<const io::EncoderPlan>& plan) const {
  trainer::ModelSource source = trainer::SourceOf(*store_, examples_);
  if (plan) source.info.input = io::RowFormat{io::InputFormat::kJson, {.features = plan}};
  return trainer::SaveModel(source, path, format);
}

}  // namespace millrace::python
