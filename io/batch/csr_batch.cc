#include "io/batch/csr_batch.h"

namespace millrace::io {

void CsrBatch::Clear() {
  row_begin.assign(1, 0);
  cols.clear();
  values.clear();
  labels.clear();
  weights.clear();
  keys.clear();
  compacted = false;
}

}  // namespace millrace::io
