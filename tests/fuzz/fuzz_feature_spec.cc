// SPDX-License-Identifier: Apache-2.0
// Feature specs: a spec that parses is written and read back the same, and makes keys in its key
// space.

#include <cstdint>
#include <string>

#include "io/features/feature_encoder.h"
#include "io/features/feature_fitter.h"

namespace millrace::io {
namespace {

void EncodeRow(const FeatureSpec& spec) {
  // A spec may ask for more memory than there is.
  if (spec.fields.size() > 50 || spec.num_features() > (uint64_t{1} << 40)) return;
  FieldRow row;
  const std::vector<std::string> columns = spec.Columns();
  row.Clear(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    row.Begin(i);
    if (i % 3 == 0) row.AddInt(1);
    if (i % 3 == 1) row.AddText("1|2|x");
    if (i % 3 == 2) row.AddDouble(-2.5);
  }
  FeatureSpec fitted = spec;
  if (!spec.IsFitted()) {
    FeatureFitter fitter(spec);
    if (!fitter.Add(row).ok()) return;
    Result<FeatureSpec> result = fitter.Finish();
    if (!result.ok()) return;
    fitted = *result;
    CHECK(fitted.IsFitted());
    CHECK(fitted.Validate().ok());
  }
  const auto plan = EncoderPlan::Make(fitted);
  if (!plan.ok()) return;
  FeatureEncoder encoder(*plan, Labels::kOptional);
  BatchBuilder rows;
  rows.Clear(/*wide_rows=*/true);
  const Status appended = encoder.Append(row, rows);
  const auto entries = encoder.Explain(row);
  if (!appended.ok()) return;
  CHECK(entries.ok() && entries->size() == rows.nnz());
  const FieldGroups groups = fitted.Groups();
  const std::vector<size_t> numbers = fitted.FieldGroupNumbers();
  for (size_t i = 0; i < rows.nnz(); ++i) {
    const uint64_t key = rows.wide_keys[i];
    CHECK((*entries)[i].key == key);
    CHECK(key != UINT64_MAX && (fitted.num_features() == 0 || key < fitted.num_features()));
    size_t group = 0;
    for (const FieldGroups::Range& range : groups.ranges) {
      if (range.first_key <= key) group = range.group;
    }
    CHECK(group == numbers[(*entries)[i].field]);
  }
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::io;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<FeatureSpec> spec = ParseFeatureSpec(text, "spec");
  if (!spec.ok()) return 0;
  for (const std::string& json : {spec->ToJson(), spec->ToPrettyJson()}) {
    const Result<FeatureSpec> again = ParseFeatureSpec(json, "written spec");
    CHECK(again.ok());
    CHECK(again->ToJson() == spec->ToJson());
    CHECK(DifferenceOf(*spec, *again).empty());
  }
  EncodeRow(*spec);
  return 0;
}
