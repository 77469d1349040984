// SPDX-License-Identifier: Apache-2.0
// The input of a training run without the training: drain_queue BATCH_SIZE NUM_FEATURES THREADS
// EPOCHS CACHE_MB FILE... reads and decodes as millrace-lr does for direct steps, and prints the
// seconds it took, and the rows.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "io/queue/input_queue.h"

int main(int argc, char** argv) {
  using namespace millrace::io;
  if (argc < 7) return 2;
  InputOptions options;
  options.batch_size = std::strtoull(argv[1], nullptr, 10);
  options.rows.num_features = std::strtoull(argv[2], nullptr, 10);
  options.threads = std::strtoull(argv[3], nullptr, 10);
  options.epochs = std::strtoull(argv[4], nullptr, 10);
  options.cache_bytes = std::strtoull(argv[5], nullptr, 10) << 20;
  options.compact = false;
  options.files.assign(argv + 6, argv + argc);
  const auto begin = std::chrono::steady_clock::now();
  const auto queue = InputQueue::Open(options);
  if (!queue.ok()) return std::fprintf(stderr, "%s\n", queue.status().message().c_str()), 1;
  uint64_t rows = 0;
  while (true) {
    const CsrBatch* batch = nullptr;
    const auto more = (*queue)->Next(batch);
    if (!more.ok()) return std::fprintf(stderr, "%s\n", more.status().message().c_str()), 1;
    if (!*more) break;
    rows += batch->rows();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.6f %llu\n", seconds.count(), static_cast<unsigned long long>(rows));
  return 0;
}
