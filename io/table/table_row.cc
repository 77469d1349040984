// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_row.h"

#include <algorithm>
#include <cstring>

namespace millrace::io {
namespace {

template <typename T>
T Load(const char*& p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  p += sizeof value;
  return value;
}

// The value at p goes to the row's current column, or nowhere.
template <bool kKeep>
const char* ReadValue(const char* p, FieldRow& row) {
  const auto kind = static_cast<uint8_t>(*p++);
  if (kind >= kShortText) {
    const size_t size = kind - kShortText;
    if (kKeep) row.AddText({p, size});
    return p + size;
  }
  switch (static_cast<TableValue>(kind)) {
    case TableValue::kMissing:
      break;
    case TableValue::kText: {
      const auto size = Load<uint32_t>(p);
      if (kKeep) row.AddText({p, size});
      return p + size;
    }
    case TableValue::kInt: {
      const auto integer = Load<int64_t>(p);
      if (kKeep) row.AddInt(integer);
      break;
    }
    case TableValue::kFloat: {
      const auto number = Load<float>(p);
      if (kKeep) row.AddFloat(number);
      break;
    }
    case TableValue::kDouble: {
      const auto number = Load<double>(p);
      if (kKeep) row.AddDouble(number);
      break;
    }
    case TableValue::kList:
      for (auto left = Load<uint32_t>(p); left > 0; --left) p = ReadValue<kKeep>(p, row);
      break;
  }
  return p;
}

}  // namespace

TableColumns::TableColumns(const std::vector<std::string>& columns,
                           const std::vector<std::string>& wanted)
    : row_columns_(wanted.size()) {
  for (const std::string& column : columns) {
    const auto found = std::find(wanted.begin(), wanted.end(), column);
    target_.push_back(found == wanted.end() ? kUnused
                                            : static_cast<uint32_t>(found - wanted.begin()));
  }
}

Result<bool> TableColumns::Read(std::string_view record, FieldRow& row) {
  row.Clear(row_columns_);
  const char* p = record.data() + kTableRowHeader;
  for (const uint32_t target : target_) {
    if (target == kUnused) {
      p = ReadValue<false>(p, row);
    } else {
      row.Begin(target);
      p = ReadValue<true>(p, row);
    }
  }
  CHECK(p == record.data() + record.size());
  return true;
}

}  // namespace millrace::io
