#include "ps/server/answer_ahead.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "io/base/random.h"

namespace millrace::ps {
namespace {

constexpr uint64_t kFeatures = 300;

SharedKeys RandomList(Random& random) {
  auto list = std::make_shared<KeyList>();
  list->signature = random.Next();
  for (uint64_t key = 0; key < kFeatures; ++key) {
    if (random.Below(3) == 0) list->keys.push_back(key);
  }
  return list;
}

std::vector<float> RandomGradient(Random& random, size_t size) {
  std::vector<float> gradient(size);
  for (float& g : gradient) g = static_cast<float>(random.Uniform() - 0.5);
  return gradient;
}

std::unique_ptr<sparse::LocalStore> MakeStore(uint64_t num_features, sparse::Rule rule) {
  sparse::UpdateOptions options = {.rule = rule, .l2 = 0.01};
  if (rule == sparse::Rule::kSgd) options.decay = sparse::Decay::kInverseSqrt;
  if (rule == sparse::Rule::kFtrl) options.l1 = 0.1;
  auto store = sparse::LocalStore::Create({num_features}, options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Many steps, each answered before its push: all weights are those that a pull after it gives.
void ExpectTheAnswersOfPulls(sparse::LocalStore& store) {
  Random random(7);
  AnswerAhead ahead;
  SharedKeys push = RandomList(random);
  for (uint64_t step = 1; step <= 20; ++step) {
    SCOPED_TRACE(step);
    const SharedKeys pull = RandomList(random);
    ASSERT_TRUE(ahead.Prepare(store, push, pull, std::make_shared<PlainNumbers>()).ok());
    EXPECT_EQ(ahead.Take(step, pull), nullptr) << "the gradient has not come";
    const std::vector<float> gradient = RandomGradient(random, push->keys.size());
    ASSERT_TRUE(ahead.Complete(store, push, gradient));
    EXPECT_EQ(store.steps(), step - 1);
    const SharedNumbers answer = ahead.Take(step, pull);
    ASSERT_TRUE(answer);
    ASSERT_TRUE(store.Push(push->keys, gradient).ok());
    std::vector<float> weights(pull->keys.size());
    ASSERT_TRUE(store.Pull(pull->keys, weights).ok());
    EXPECT_TRUE(SameBits(answer->numbers(), weights));
    push = pull;
  }
}

TEST(AnswerAhead, IsThePullAfterThePushBitForBit) {
  using sparse::Rule;
  for (const Rule rule : {Rule::kSgd, Rule::kAdaGrad, Rule::kFtrl, Rule::kAdam}) {
    for (const uint64_t features : {kFeatures, uint64_t{0}}) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + (features == 0 ? ", open" : ""));
      ExpectTheAnswersOfPulls(*MakeStore(features, rule));
    }
  }
}

TEST(AnswerAhead, IsForNothingButWhatItWasPreparedFor) {
  Random random(3);
  auto store = MakeStore(kFeatures, sparse::Rule::kSgd);
  const SharedKeys push = RandomList(random), pull = RandomList(random), other = RandomList(random);
  const std::vector<float> gradient(kFeatures, 1.0f);
  AnswerAhead ahead;
  EXPECT_FALSE(ahead.Complete(*store, push, gradient));
  EXPECT_EQ(ahead.Take(0, pull), nullptr);
  const auto prepare = [&] {
    EXPECT_TRUE(ahead.Prepare(*store, push, pull, std::make_shared<PlainNumbers>()).ok());
  };
  prepare();
  EXPECT_TRUE(ahead.IsFor(*store, push, pull));
  EXPECT_FALSE(ahead.Complete(*store, other, gradient)) << "another list";
  EXPECT_TRUE(store->Push(other->keys, std::span(gradient).first(other->keys.size())).ok());
  EXPECT_FALSE(ahead.Complete(*store, push, gradient)) << "somebody else's step came between";
  prepare();
  ASSERT_TRUE(ahead.Complete(*store, push, gradient));
  EXPECT_FALSE(ahead.Complete(*store, push, gradient)) << "twice";
  EXPECT_EQ(ahead.Take(2, other), nullptr);
  EXPECT_EQ(ahead.Take(3, pull), nullptr);
  EXPECT_NE(ahead.Take(2, pull), nullptr);
  EXPECT_EQ(ahead.Take(2, pull), nullptr) << "once";
}

}  // namespace
}  // namespace millrace::ps
