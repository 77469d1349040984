// SPDX-License-Identifier: Apache-2.0
// Models as text:
//
//   # millrace model 1
//   # num_features 33762578
//   # rule ftrl                 one line per field of the model's header
//   # steps 2000
//   # examples 200000
//   # input.format libsvm       how the training data was written, see io/rows/row_format.h
//   # input.index_base 1
//   # option.centers 17:2000    unless empty: key:mean, which training subtracts from values
//   17<TAB>-0.25                key and weight, keys ascend
//   905<TAB>1.5e-05           a factorization machine: then a tab and the factors, by spaces
//   intercept<TAB>0.5           unless it is 0; that of rows as they are (without centers), with
//                               factors that of centered rows
//   # weights 3                 the last line, by which truncation is detected
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "trainer/model/model.h"
#include "trainer/model/model_reader.h"
#include "trainer/model/output_buffer.h"

namespace millrace::trainer {

constexpr std::string_view kTextModelMark = "# millrace model 1";

Result<std::unique_ptr<ModelReader>> OpenTextModel(const std::string& path);

// A file is a head, an entry for each weight, and an end. Errors stay in `out` until Finish.
// With info.centers there is an entry of the intercept, even if it is 0.
void WriteTextModelHead(const ModelInfo& info, OutputBuffer& out);
void WriteTextModelEntry(uint64_t key, double weight, std::span<const float> factors,
                         OutputBuffer& out);
void WriteTextModelEnd(uint64_t weights, OutputBuffer& out);

}  // namespace millrace::trainer
