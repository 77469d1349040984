// SPDX-License-Identifier: Apache-2.0
#include "ps/job_config.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::ps {
namespace {

JobConfig Unusual() {
  JobConfig config;
  config.num_workers = 7;
  config.num_shards = 3;
  config.mode = Mode::kSsp;
  config.staleness = 11;
  config.num_features = 123456789;
  config.intercept = false;
  config.update.rule = sparse::Rule::kAdam;
  config.update.rate = 1.0 / 3;
  config.zstd = true;
  config.data = "/data/a, seed 5";
  return config;
}

JobConfig WithFactors() {
  JobConfig config = Unusual();
  config.factors = {.kind = sparse::ModelKind::kFm, .factors = 12, .init = 0.125, .seed = 9};
  return config;
}

TEST(JobConfig, FieldsRoundTrip) {
  JobConfig sync = Unusual(), dense = Unusual(), fm = WithFactors(), ffm = WithFactors();
  sync.mode = Mode::kSync;
  sync.replicas_to_aggregate = 5;
  dense.dense.emplace();
  dense.dense->rule = sparse::DenseRule::kAdam;
  dense.dense->rate = 0.25;
  dense.zstd = false;
  dense.bf16 = true;
  ffm.factors.kind = sparse::ModelKind::kFfm;
  ffm.factors.fields = 39;
  for (const JobConfig& config : {JobConfig(), Unusual(), sync, dense, fm, ffm}) {
    const auto fields = io::StateFields::Decode(config.Fields().Encode());
    ASSERT_TRUE(fields.ok()) << fields.status().message();
    const auto read = JobConfig::From(*fields);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->num_workers, config.num_workers);
    EXPECT_EQ(read->num_shards, config.num_shards);
    EXPECT_EQ(read->mode, config.mode);
    EXPECT_EQ(read->staleness, config.staleness);
    EXPECT_EQ(read->replicas_to_aggregate, config.replicas_to_aggregate);
    EXPECT_EQ(read->num_features, config.num_features);
    EXPECT_EQ(read->intercept, config.intercept);
    EXPECT_EQ(read->zstd, config.zstd);
    EXPECT_EQ(read->bf16, config.bf16);
    EXPECT_EQ(read->data, config.data);
    EXPECT_EQ(read->dense, config.dense);
    EXPECT_EQ(read->factors, config.factors);
    if (!config.dense) {
      EXPECT_EQ(read->update.rule, config.update.rule);
      EXPECT_EQ(read->update.rate, config.update.Rate());
    }
    EXPECT_TRUE(CheckSameJob(config.Fields(), read->Fields()).ok());
  }
}

TEST(JobConfig, EveryMissingFieldIsAnError) {
  const JobConfig config = Unusual();
  const io::StateFields whole = config.Fields();
  for (const auto& [left_out, ignored] : whole.all()) {
    SCOPED_TRACE(left_out);
    io::StateFields fields;
    for (const auto& [name, value] : whole.all()) {
      if (name != left_out) fields.Add(name, value);
    }
    const auto read = JobConfig::From(fields);
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find(left_out), std::string::npos) << read.status().message();
    EXPECT_EQ(CheckSameJob(whole, fields).message().find("the job has " + left_out + " "), 0u);
  }
}

TEST(JobConfig, AnotherKindOrShapeIsAnotherJob) {
  const JobConfig lr = Unusual(), fm = WithFactors();
  JobConfig wide = fm, seeded = fm;
  wide.factors.factors = 16;
  seeded.factors.seed = 10;
  const auto difference = [](const JobConfig& ours, const JobConfig& theirs) {
    return CheckSameJob(ours.Fields(), theirs.Fields()).message();
  };
  EXPECT_EQ(difference(lr, fm), "the job has model lr, found fm");
  EXPECT_EQ(difference(fm, lr), "the job has model fm, found lr");
  EXPECT_EQ(difference(fm, wide), "the job has factors 12, found 16");
  EXPECT_EQ(difference(fm, seeded), "the job has factor_seed 9, found 10");
}

TEST(JobConfig, BadFactorsAreRefused) {
  JobConfig config = WithFactors();
  config.factors.factors = 10;
  const auto fields = io::StateFields::Decode(config.Fields().Encode());
  const auto read = JobConfig::From(*fields);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(), "factors: expected a multiple of 4 from 4 to 64, found 10");
  config = WithFactors();
  config.dense.emplace();
  EXPECT_EQ(config.Validate().message(), "factors: expected none beside the dense blocks of a net");
}

TEST(JobConfig, DifferenceIsNamed) {
  JobConfig other = Unusual();
  other.staleness = 12;
  EXPECT_EQ(CheckSameJob(Unusual().Fields(), other.Fields()).message(),
            "the job has staleness 11, found 12");
}

TEST(JobConfig, ImpossibleJobsAreRefused) {
  const auto refusal = [](auto change) {
    JobConfig config = Unusual();
    change(config);
    const Status status = config.Validate();
    EXPECT_FALSE(JobConfig::From(config.Fields()).ok());
    return status.message();
  };
  EXPECT_EQ(refusal([](JobConfig& c) { c.num_workers = 0; }),
            "num_workers: expected 1 to 4096, found 0");
  EXPECT_EQ(refusal([](JobConfig& c) { c.num_shards = 4097; }),
            "num_shards: expected 1 to 4096, found 4097");
  EXPECT_EQ(refusal([](JobConfig& c) { c.replicas_to_aggregate = 8; }),
            "replicas_to_aggregate: expected at most the 7 workers, found 8");
  EXPECT_EQ(refusal([](JobConfig& c) { c.replicas_to_aggregate = 2; }),
            "replicas_to_aggregate: expected mode sync, found ssp");
  EXPECT_EQ(ModeFromName("bsp").status().message(),
            "mode: expected sync, async or ssp, found 'bsp'");
}

}  // namespace
}  // namespace millrace::ps
