// SPDX-License-Identifier: Apache-2.0
// How the rows of a data set are written, as fields in the header of a model: a model knows its
// training data's format and settings, so that a program that scores other data need not be told.
#pragma once

#include <optional>

#include "io/base/status.h"
#include "io/rows/row_decoder.h"
#include "io/state/state_fields.h"

namespace millrace::io {

struct RowFormat {
  InputFormat format = InputFormat::kTfRecord;
  RowOptions rows = {};
};

// Adds "input.format" and the settings that this format has: the feature spec if there is one, else
// hash_bits of VW and Criteo, hash_all of VW, index_base of libsvm and libffm, the feature names of
// TFRecord; positive_label; and num_fields, if the rows have fields. num_features is a field of the
// model itself.
void AddRowFormat(const RowFormat& rows, StateFields& fields);

// The settings that the format does not have keep their defaults. None if the fields have no
// "input.format". A malformed field is an error (kCorrupt) that names it.
Result<std::optional<RowFormat>> RowFormatFrom(const StateFields& fields);

}  // namespace millrace::io
