// SPDX-License-Identifier: Apache-2.0
// Reads named columns from tf.Examples with one feature per column, straight from the wire format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/example/feature_view.h"
#include "io/example/wire.h"
#include "io/features/field_row.h"

namespace millrace::io {

// A feature's values are those of its column: bytes are texts, int64 and float lists numbers. A
// feature that is absent or has no values is a missing column. Of a SequenceExample, the context is
// read.
//
// Records in the canonical layout of protobuf's writers take a fast path; all others (and invalid
// ones, for their messages) go through the general decoder. The fast path does not look into
// features that are no columns.
class ExampleColumns final : public ColumnReader {
 public:
  explicit ExampleColumns(const std::vector<std::string>& columns);
  Result<bool> Read(std::string_view record, FieldRow& row) override;

 private:
  static constexpr size_t kUnused = SIZE_MAX;
  bool ReadFast(std::string_view record, FieldRow& row) const;
  bool ReadShortEntry(WireReader& features, FieldRow& row) const;
  bool ReadEntry(WireReader& features, FieldRow& row) const;
  Status ReadGeneral(std::string_view record, FieldRow& row);
  size_t ColumnOf(std::string_view name) const;

  std::vector<std::string> names_;
  // Open addressing by the hash of the name. Writers of protobuf maps do not keep an order, so
  // every name of every record is looked up.
  struct Slot {
    uint64_t head = 0, tail = 0;  // the first and last eight bytes of the name
    size_t size = 0;
    size_t column = kUnused;
  };
  static Slot SlotOf(std::string_view name);
  size_t PositionOf(const Slot& slot) const;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  ExampleView view_;
};

}  // namespace millrace::io
