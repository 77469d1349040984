// SPDX-License-Identifier: Apache-2.0
// Rows whose values are relative to a center: x - c in place of x.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "io/rows/row_decoder.h"

namespace millrace::io {

// Subtracts the centers from the rows of `decoder`. A row that lacks a centered feature has the
// value 0 there, so that it gets the entry -c: a linear model of the centered rows is one of the
// rows as they are, with an intercept that is less by the sum of weight times center.
std::unique_ptr<RowDecoder> CenterRows(std::unique_ptr<RowDecoder> decoder,
                                       std::span<const ValueCenter> centers);

}  // namespace millrace::io
