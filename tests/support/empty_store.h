// SPDX-License-Identifier: Apache-2.0
// Stores to fill.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "sparse/local_store.h"

namespace millrace::test {

inline std::unique_ptr<sparse::LocalStore> EmptyStore(uint64_t num_features,
                                                      const sparse::UpdateOptions& options = {}) {
  auto store = sparse::LocalStore::Create({num_features}, options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

}  // namespace millrace::test
