// SPDX-License-Identifier: Apache-2.0
// Named columns of tf.Examples against the general decoder: what that accepts is accepted, with the
// same values.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "io/example/example_columns.h"
#include "io/example/varint_list.h"
#include "tests/support/field_rows.h"

namespace millrace::io {
namespace {

const std::vector<std::string> kColumns = {"a", "bb", "label", "a long name of a column", ""};

std::vector<std::string> GeneralTexts(const ExampleView& view) {
  FieldRow row;
  row.Clear(kColumns.size());
  for (size_t i = 0; i < kColumns.size(); ++i) {
    const FeatureView* feature = view.Find(kColumns[i]);
    if (!feature) continue;
    row.Begin(i);
    for (const std::string_view text : feature->bytes) row.AddText(text);
    for (const float number : feature->floats) row.AddFloat(number);
    for (const int64_t integer : feature->ints) row.AddInt(integer);
  }
  return test::RowTexts(row);
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::io;
  // Kept between inputs: what one record leaves behind must not show in the next.
  static ExampleColumns columns(kColumns);
  static ExampleView view;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  bytes.append(kVarintReadSlack, '\0');
  const std::string_view record(bytes.data(), size);
  FieldRow row;
  const Result<bool> read = columns.Read(record, row);
  Status general = ParseExample(record, view);
  if (!general.ok()) general = ParseSequenceExample(record, view);
  if (general.ok() != read.ok()) {
    if (read.ok()) return 0;  // the error is in a feature that is no column
    std::fprintf(stderr, "columns: %s\ngeneral: %s\n", read.status().message().c_str(),
                 general.message().c_str());
    std::abort();
  }
  if (!read.ok()) return 0;
  if (test::RowTexts(row) != GeneralTexts(view)) {
    for (const auto& texts : {test::RowTexts(row), GeneralTexts(view)}) {
      for (const std::string& text : texts) std::fprintf(stderr, "[%s] ", text.c_str());
      std::fprintf(stderr, "\n");
    }
    std::abort();
  }
  return 0;
}
