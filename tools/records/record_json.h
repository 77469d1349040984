// SPDX-License-Identifier: Apache-2.0
// One record as one JSON value.
//
//   Example          {"features":{"index":[3,17],"label":[1],"value":[1.0,0.5]}}
//   SequenceExample  {"context":{...},"feature_lists":{"name":[[1,2],[3]]}}
//   anything else    {"raw":"aGVsbG8=","size":5}
//
// Integers have no point, floats always have a point or an exponent, a feature without a list is
// null. Bytes are a string where they are printable UTF-8, else {"base64":"..."}.
#pragma once

#include <string>
#include <string_view>

#include "io/example/feature_view.h"

namespace millrace::records {

// Appends the JSON of `record`, without a newline. `scratch` is reused from record to record.
void AppendRecordJson(std::string_view record, io::ExampleView& scratch, std::string& out);

// UTF-8 without control characters other than tab, newline and carriage return.
bool IsPrintable(std::string_view bytes);

}  // namespace millrace::records
