// SPDX-License-Identifier: Apache-2.0
// Trains sparse logistic regression with FTRL-proximal on TFRecord files, evaluates it on others
// and saves the model, which millrace-predict reads:
//
//   train_model 'data/train-*' 'data/test-*' NUM_FEATURES model.bin
#include <cstdio>
#include <cstdlib>
#include <string>

#include "io/stream/file_list.h"
#include "profiler/clock.h"
#include "trainer/sparse/sparse_trainer.h"

using namespace millrace;

Status Train(const char* train, const char* test, uint64_t num_features, const char* model) {
  trainer::TrainOptions options;
  ASSIGN_OR_RETURN(options.train.files, io::ExpandFiles(train));
  ASSIGN_OR_RETURN(options.test.files, io::ExpandFiles(test));
  options.train.batch_size = 100;
  options.test.shuffle_capacity = 0;
  options.train.rows.num_features = options.test.rows.num_features = num_features;
  options.shape.num_features = num_features;
  options.update = {.rule = sparse::Rule::kFtrl, .rate = 0.1, .l1 = 1};
  options.eval_every = 5000;  // examples

  trainer::TrainObserver observer;
  observer.now_s = NowSeconds;
  observer.on_evaluation = [](const trainer::MetricsRow& row) {
    std::printf("%8llu examples  logloss %.4f  auc %.4f\n",
                static_cast<unsigned long long>(row.examples), row.Metric("logloss"),
                row.Metric("auc"));
    return Status();
  };

  ASSIGN_OR_RETURN(const auto trainer, trainer::SparseTrainer::Create(options, observer));
  ASSIGN_OR_RETURN(const trainer::TrainSummary summary, trainer->Run());
  std::printf("trained on %llu examples in %llu steps\n",
              static_cast<unsigned long long>(summary.examples),
              static_cast<unsigned long long>(summary.steps));
  return trainer->SaveModel(model, trainer::ModelFormat::kBinary);
}

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: train_model 'TRAIN' 'TEST' NUM_FEATURES MODEL\n");
    return 2;
  }
  const Status status = Train(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), argv[4]);
  if (!status.ok()) std::fprintf(stderr, "train_model: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
