// SPDX-License-Identifier: Apache-2.0
#include "io/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace millrace::io {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Invalid("odd");
  return n / 2;
}
Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}
Status Check(int n) {
  RETURN_IF_ERROR(Quarter(n).status());
  return {};
}

TEST(Status, PassesErrorsUpUnchanged) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Check(6).code(), Code::kInvalid);
  EXPECT_TRUE(Check(8).ok());
}

TEST(Status, IoErrorSaysWhatTheSystemSaid) {
  EXPECT_EQ(IoError("a.txt: cannot open", ENOENT).message(),
            "a.txt: cannot open: No such file or directory");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  EXPECT_EQ(**result, 3);
}

}  // namespace
}  // namespace millrace::io
