// Stores to fill, under every rule.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "sparse/local_store.h"

namespace millrace::sparse {

inline constexpr Rule kRules[] = {Rule::kSgd, Rule::kAdaGrad, Rule::kFtrl, Rule::kAdam};

inline std::unique_ptr<LocalStore> EmptyStore(uint64_t num_features, UpdateOptions options = {}) {
  auto store = LocalStore::Create({num_features}, options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

}  // namespace millrace::sparse
