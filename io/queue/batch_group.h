// Some batches that are drawn, decoded and handed over in one go.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "io/batch/row_sink.h"
#include "io/queue/input_options.h"
#include "io/stream/block_pool.h"

namespace millrace::io {

struct BadRow {
  RecordOrigin origin;
  std::string what;
};

struct BatchGroup {
  struct Batch {
    RowSink rows;
    size_t begin = 0;  // in refs
    size_t end = 0;
    InputPosition after;
  };
  struct BadRef {
    size_t ref;
    Status what;
  };
  std::vector<RecordRef> refs;
  std::vector<Batch> batches;
  size_t count = 0;  // batches in use
  std::vector<BadRef> bad_rows;
  std::optional<BadRow> error;  // comes behind the batches
  bool ready = false;

  // Keeps its memory.
  void Clear() {
    refs.clear();
    bad_rows.clear();
    count = 0;
    error.reset();
    ready = false;
  }

  // Records behind the last batch.
  size_t open_rows() const { return refs.size() - closed_refs(); }
  // Makes them a batch, if there are any.
  void CloseBatch(const InputPosition& after) {
    if (open_rows() == 0) return;
    const size_t begin = closed_refs();
    Batch& batch = batches[count++];
    batch.begin = begin;
    batch.end = refs.size();
    batch.after = after;
  }

  // The first batch from `at` on that has rows (all records of a batch may have been damaged); `at`
  // moves on to it. Null if there is none.
  const Batch* Find(size_t& at) const {
    while (at < count && batches[at].rows.batch.rows() == 0) ++at;
    return at < count ? &batches[at] : nullptr;
  }

 private:
  size_t closed_refs() const { return count == 0 ? 0 : batches[count - 1].end; }
};

}  // namespace millrace::io
