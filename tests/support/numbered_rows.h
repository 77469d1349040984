// SPDX-License-Identifier: Apache-2.0
// Files of rows that can be told apart, and queues on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "io/example/example_encoder.h"
#include "io/queue/input_queue.h"
#include "io/record/record_writer.h"
#include "tests/support/test_files.h"

namespace millrace::test {

inline constexpr uint64_t kFeatures = 100000;

// Row n has the keys {n, n + 1, ...} (as many as n mod 4), so that a row can be told from its first
// key.
inline std::string Row(uint64_t n) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i <= n % 4; ++i) keys.push_back(n + i);
  std::vector<float> values(keys.size(), n % 5 == 0 ? 0.5f : 1.0f);
  std::string record;
  io::EncodeSparseExample({}, static_cast<int64_t>(n % 3 == 0), keys, values, record);
  return record;
}

class NumberedRowsTest : public testing::Test {
 protected:
  // Files of uneven size with rows numbered from 0 on.
  void MakeFiles(size_t files, uint64_t rows,
                 io::Compression compression = io::Compression::kNone) {
    uint64_t n = 0;
    for (size_t f = 0; f < files; ++f) {
      options_.files.push_back(folder_ / ("part-" + std::to_string(f)));
      auto writer = io::RecordWriter::Create(options_.files.back(), {.compression = compression});
      ASSERT_TRUE(writer.ok());
      const uint64_t end = f + 1 == files ? rows : rows * (f + 1) * (f + 2) / (files * (files + 1));
      for (; n < end; ++n) ASSERT_TRUE(writer->Append(Row(n)).ok());
      ASSERT_TRUE(writer->Close().ok());
    }
    options_.rows.num_features = kFeatures;
    options_.batch_size = 7;
    options_.shuffle_capacity = 50;
    options_.min_after_dequeue = 20;
    options_.block_bytes = 500;
    options_.interleave = 3;
  }

  // The numbers of the rows of each batch; checks the rows' content on the way.
  static std::vector<std::vector<uint64_t>> Drain(io::InputQueue& queue, Status* error = nullptr) {
    std::vector<std::vector<uint64_t>> batches;
    const io::CsrBatch* batch = nullptr;
    while (true) {
      const Result<bool> more = queue.Next(batch);
      if (error) *error = more.status();
      if (!error) {
        EXPECT_TRUE(more.ok()) << more.status().message();
      }
      if (!more.ok() || !*more) return batches;
      batches.push_back(Numbers(*batch));
    }
  }

  static std::vector<uint64_t> Numbers(const io::CsrBatch& batch) {
    std::vector<uint64_t> numbers;
    EXPECT_TRUE(std::is_sorted(batch.keys.begin(), batch.keys.end()));
    for (size_t r = 0; r < batch.rows(); ++r) {
      const uint32_t begin = batch.row_begin[r];
      const auto key = [&](uint32_t i) {
        return batch.compacted ? batch.keys[batch.cols[i]] : batch.cols[i];
      };
      const uint64_t n = key(begin);
      EXPECT_EQ(batch.row_begin[r + 1] - begin, n % 4 + 1);
      for (uint32_t i = 0; i <= n % 4; ++i) EXPECT_EQ(key(begin + i), n + i);
      EXPECT_EQ(batch.labels[r], n % 3 == 0 ? 1.0f : 0.0f);
      EXPECT_EQ(batch.values.empty() ? 1.0f : batch.values[begin], n % 5 == 0 ? 0.5f : 1.0f);
      numbers.push_back(n);
    }
    return numbers;
  }

  std::vector<std::vector<uint64_t>> Run(const io::InputOptions& options) {
    auto queue = io::InputQueue::Open(options);
    EXPECT_TRUE(queue.ok()) << queue.status().message();
    if (!queue.ok()) return {};
    return Drain(**queue);
  }

  static std::vector<uint64_t> Flat(const std::vector<std::vector<uint64_t>>& batches) {
    std::vector<uint64_t> all;
    for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  }

  TemporaryFolder folder_;
  io::InputOptions options_;
};

}  // namespace millrace::test
