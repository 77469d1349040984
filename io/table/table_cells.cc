// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_cells.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/table/table_row.h"

namespace millrace::io {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

template <typename T>
char* Put(char* p, const T& value) {
  std::memcpy(p, &value, sizeof value);
  return p + sizeof value;
}

char* PutKind(char* p, TableValue kind) {
  *p = static_cast<char>(kind);
  return p + 1;
}

template <typename T>
char* PutNumber(char* p, TableValue kind, T number) {
  return Put(PutKind(p, kind), number);
}

constexpr size_t kNumberSize = 1 + 8;

size_t TextSize(size_t size) { return size <= kMaxShortText ? 1 + size : 1 + 4 + size; }

char* PutText(char* p, const char* text, size_t size) {
  if (size <= kMaxShortText) {
    *p++ = static_cast<char>(kShortText + size);
  } else {
    p = Put(PutKind(p, TableValue::kText), static_cast<uint32_t>(size));
  }
  std::memcpy(p, text, size);
  return p + size;
}

// A short text that is made of a value.
struct MadeText {
  char bytes[64];
  size_t size = 0;
};

// The kinds of values: Raw is what a vector holds, Size the bytes that Write writes.

template <typename T>
struct IntValue {
  using Raw = T;
  size_t Size(const T&) const { return kNumberSize; }
  char* Write(char* p, const T& value) const {
    return PutNumber(p, TableValue::kInt, static_cast<int64_t>(value));
  }
};

// An integer that may not fit 64 bits with a sign.
template <typename T>
struct LargeIntValue {
  using Raw = T;
  static bool Fits(const T& value) {
    return value <= static_cast<T>(INT64_MAX) &&
           (std::is_same_v<T, Int128> ? value >= static_cast<T>(INT64_MIN) : true);
  }
  static MadeText Digits(T value) {
    char reversed[64];
    size_t count = 0;
    const bool negative = value < T{0};
    for (; value != 0; value /= 10) {
      const auto digit = static_cast<int>(value % 10);
      reversed[count++] = static_cast<char>('0' + (digit < 0 ? -digit : digit));
    }
    if (negative) reversed[count++] = '-';
    MadeText text;
    while (count > 0) text.bytes[text.size++] = reversed[--count];
    return text;
  }
  size_t Size(const T& value) const {
    return Fits(value) ? kNumberSize : TextSize(Digits(value).size);
  }
  char* Write(char* p, const T& value) const {
    if (Fits(value)) return PutNumber(p, TableValue::kInt, static_cast<int64_t>(value));
    const MadeText text = Digits(value);
    return PutText(p, text.bytes, text.size);
  }
};

struct FloatValue {
  using Raw = float;
  size_t Size(float) const { return 1 + 4; }
  char* Write(char* p, float value) const { return PutNumber(p, TableValue::kFloat, value); }
};

struct DoubleValue {
  using Raw = double;
  size_t Size(double) const { return kNumberSize; }
  char* Write(char* p, double value) const { return PutNumber(p, TableValue::kDouble, value); }
};

// An integer that stands for value / power.
template <typename T>
struct DecimalValue {
  using Raw = T;
  double power = 1;
  size_t Size(const T&) const { return kNumberSize; }
  char* Write(char* p, const T& value) const {
    return PutNumber(p, TableValue::kDouble, static_cast<double>(value) / power);
  }
};

struct BoolValue {
  using Raw = uint8_t;
  static std::string_view Text(uint8_t value) { return value != 0 ? "true" : "false"; }
  size_t Size(uint8_t value) const { return TextSize(Text(value).size()); }
  char* Write(char* p, uint8_t value) const {
    return PutText(p, Text(value).data(), Text(value).size());
  }
};

struct TextValue {
  using Raw = DuckString;
  size_t Size(const DuckString& value) const { return TextSize(value.size); }
  char* Write(char* p, const DuckString& value) const {
    return PutText(p, value.data(), value.size);
  }
};

// A number in the dictionary.
template <typename T>
struct EnumValue {
  using Raw = T;
  std::vector<std::string> texts;
  size_t Size(const T& value) const { return TextSize(texts[value].size()); }
  char* Write(char* p, const T& value) const {
    return PutText(p, texts[value].data(), texts[value].size());
  }
};

// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar (an era has
// 400 years, a year begins in March). A year before 1 is printed as DuckDB does: 0044-03-15 (BC).
void PrintDate(int64_t days, MadeText& text, bool& is_before_christ) {
  constexpr int64_t kEraDays = 146097, kToMarch0 = 719468;
  const int64_t day = days + kToMarch0;
  const int64_t era = (day >= 0 ? day : day - kEraDays + 1) / kEraDays;
  const int64_t of_era = day - era * kEraDays;
  const int64_t year_of_era =
      (of_era - of_era / 1460 + of_era / 36524 - of_era / (kEraDays - 1)) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t from_march = (5 * of_year + 2) / 153;
  const int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  is_before_christ = year <= 0;
  text.size = static_cast<size_t>(std::snprintf(
      text.bytes, sizeof text.bytes, "%04lld-%02d-%02d",
      static_cast<long long>(is_before_christ ? 1 - year : year), static_cast<int>(month),
      static_cast<int>(of_year - (153 * from_march + 2) / 5 + 1)));
}

void Append(MadeText& text, std::string_view more) {
  std::memcpy(text.bytes + text.size, more.data(), more.size());
  text.size += more.size();
}

template <typename T>
bool IsInfinite(T value, MadeText& text) {
  constexpr T kMax = std::numeric_limits<T>::max();
  if (value != kMax && value != -kMax) return false;
  Append(text, value == kMax ? "infinity" : "-infinity");
  return true;
}

struct DateValue {
  using Raw = int32_t;
  static MadeText Text(int32_t days) {
    MadeText text;
    bool is_before_christ = false;
    if (IsInfinite(days, text)) return text;
    PrintDate(days, text, is_before_christ);
    if (is_before_christ) Append(text, " (BC)");
    return text;
  }
  size_t Size(int32_t value) const { return TextSize(Text(value).size); }
  char* Write(char* p, int32_t value) const {
    const MadeText text = Text(value);
    return PutText(p, text.bytes, text.size);
  }
};

struct TimestampValue {
  using Raw = int64_t;
  int digits = 6;  // of a second's fraction
  bool has_zone = false;

  MadeText Text(int64_t value) const {
    MadeText text;
    if (IsInfinite(value, text)) return text;
    int64_t second = 1;
    for (int i = 0; i < digits; ++i) second *= 10;
    const int64_t per_day = 86400 * second;
    const int64_t days = value / per_day - (value % per_day < 0 ? 1 : 0);
    const int64_t rest = value - days * per_day;
    const auto of_day = static_cast<int>(rest / second);
    bool is_before_christ = false;
    PrintDate(days, text, is_before_christ);
    text.size += static_cast<size_t>(std::snprintf(text.bytes + text.size,
                                                   sizeof text.bytes - text.size, " %02d:%02d:%02d",
                                                   of_day / 3600, of_day / 60 % 60, of_day % 60));
    if (rest % second != 0) {
      char fraction[32];
      std::snprintf(fraction, sizeof fraction, ".%0*lld", digits,
                    static_cast<long long>(rest % second));
      std::string_view shown = fraction;
      while (shown.back() == '0') shown.remove_suffix(1);
      Append(text, shown);
    }
    if (has_zone) Append(text, "+00");
    if (is_before_christ) Append(text, " (BC)");
    return text;
  }
  size_t Size(int64_t value) const { return TextSize(Text(value).size); }
  char* Write(char* p, int64_t value) const {
    const MadeText text = Text(value);
    return PutText(p, text.bytes, text.size);
  }
};

// Always NULL.
struct NullValue {
  using Raw = uint8_t;
  size_t Size(uint8_t) const { return 1; }
  char* Write(char* p, uint8_t) const { return PutKind(p, TableValue::kMissing); }
};

// The values of a vector; a validity mask has a bit per value, and is absent if none is NULL.
template <typename T>
struct Values {
  const T* data = nullptr;
  const uint64_t* validity = nullptr;

  void Attach(const DuckDbApi& duckdb, DuckHandle vector) {
    data = static_cast<const T*>(duckdb.vector_get_data(vector));
    validity = duckdb.vector_get_validity(vector);
  }
  bool IsNull(size_t i) const { return validity && (validity[i / 64] >> (i % 64) & 1) == 0; }
};

template <typename Value>
class FlatCells final : public TableCells {
 public:
  explicit FlatCells(Value value) : value_(std::move(value)) {}

  void Attach(const DuckDbApi& duckdb, DuckHandle vector) override {
    values_.Attach(duckdb, vector);
  }
  void AddSizes(size_t first, size_t count, uint64_t* sizes) const override {
    for (size_t i = 0; i < count; ++i) {
      sizes[i] += values_.IsNull(first + i) ? 1 : value_.Size(values_.data[first + i]);
    }
  }
  void Write(size_t first, size_t count, char** out) const override {
    for (size_t i = 0; i < count; ++i) {
      out[i] = values_.IsNull(first + i) ? PutKind(out[i], TableValue::kMissing)
                                         : value_.Write(out[i], values_.data[first + i]);
    }
  }

 private:
  Value value_;
  Values<typename Value::Raw> values_;
};

template <typename Value>
class ListCells final : public TableCells {
 public:
  explicit ListCells(Value value) : value_(std::move(value)) {}

  void Attach(const DuckDbApi& duckdb, DuckHandle vector) override {
    lists_.Attach(duckdb, vector);
    elements_.Attach(duckdb, duckdb.list_vector_get_child(vector));
  }
  void AddSizes(size_t first, size_t count, uint64_t* sizes) const override {
    for (size_t i = first; i < first + count; ++i) {
      uint64_t& size = sizes[i - first];
      size += 1;
      if (lists_.IsNull(i)) continue;
      size += sizeof(uint32_t);
      ForEach(i, [&](const auto& value) { size += value_.Size(value); });
    }
  }
  void Write(size_t first, size_t count, char** out) const override {
    for (size_t i = first; i < first + count; ++i) {
      char*& p = out[i - first];
      if (lists_.IsNull(i)) {
        p = PutKind(p, TableValue::kMissing);
        continue;
      }
      char* const begin = PutKind(p, TableValue::kList);
      uint32_t values = 0;
      p = begin + sizeof values;
      ForEach(i, [&](const auto& value) {
        p = value_.Write(p, value);
        ++values;
      });
      Put(begin, values);
    }
  }

 private:
  template <typename Use>
  void ForEach(size_t i, const Use& use) const {
    const DuckList list = lists_.data[i];
    for (uint64_t at = list.offset; at < list.offset + list.size; ++at) {
      if (!elements_.IsNull(at)) use(elements_.data[at]);
    }
  }

  Value value_;
  Values<DuckList> lists_;
  Values<typename Value::Raw> elements_;
};

class TypeHandle {
 public:
  TypeHandle(const DuckDbApi& duckdb, DuckHandle type) : duckdb_(duckdb), type_(type) {}
  ~TypeHandle() { duckdb_.destroy_logical_type(&type_); }
  TypeHandle(const TypeHandle&) = delete;
  TypeHandle& operator=(const TypeHandle&) = delete;
  DuckHandle get() const { return type_; }

 private:
  const DuckDbApi& duckdb_;
  DuckHandle type_;
};

template <typename Value>
std::unique_ptr<TableCells> Make(bool is_list, Value value = {}) {
  if (is_list) return std::make_unique<ListCells<Value>>(std::move(value));
  return std::make_unique<FlatCells<Value>>(std::move(value));
}

template <typename T>
std::unique_ptr<TableCells> MakeDecimal(bool is_list, int scale) {
  using Whole = std::conditional_t<std::is_same_v<T, Int128>, LargeIntValue<T>, IntValue<T>>;
  if (scale > 0) return Make(is_list, DecimalValue<T>{std::pow(10.0, scale)});
  return Make<Whole>(is_list);
}

std::unique_ptr<TableCells> MakeDecimalCells(const DuckDbApi& duckdb, DuckHandle type,
                                             bool is_list) {
  const int scale = duckdb.decimal_scale(type);
  switch (duckdb.decimal_internal_type(type)) {
    case DuckType::kSmallint:
      return MakeDecimal<int16_t>(is_list, scale);
    case DuckType::kInteger:
      return MakeDecimal<int32_t>(is_list, scale);
    case DuckType::kBigint:
      return MakeDecimal<int64_t>(is_list, scale);
    case DuckType::kHugeint:
      return MakeDecimal<Int128>(is_list, scale);
    default:
      return nullptr;
  }
}

std::unique_ptr<TableCells> MakeEnumCells(const DuckDbApi& duckdb, DuckHandle type, bool is_list) {
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < duckdb.enum_dictionary_size(type); ++i) {
    char* const text = duckdb.enum_dictionary_value(type, i);
    texts.emplace_back(text);
    duckdb.free(text);
  }
  switch (duckdb.enum_internal_type(type)) {
    case DuckType::kUTinyint:
      return Make(is_list, EnumValue<uint8_t>{std::move(texts)});
    case DuckType::kUSmallint:
      return Make(is_list, EnumValue<uint16_t>{std::move(texts)});
    case DuckType::kUInteger:
      return Make(is_list, EnumValue<uint32_t>{std::move(texts)});
    default:
      return nullptr;
  }
}

std::unique_ptr<TableCells> MakeCells(const DuckDbApi& duckdb, DuckHandle type, bool is_list) {
  switch (duckdb.get_type_id(type)) {
    case DuckType::kBoolean:
      return Make<BoolValue>(is_list);
    case DuckType::kTinyint:
      return Make<IntValue<int8_t>>(is_list);
    case DuckType::kSmallint:
      return Make<IntValue<int16_t>>(is_list);
    case DuckType::kInteger:
      return Make<IntValue<int32_t>>(is_list);
    case DuckType::kBigint:
      return Make<IntValue<int64_t>>(is_list);
    case DuckType::kUTinyint:
      return Make<IntValue<uint8_t>>(is_list);
    case DuckType::kUSmallint:
      return Make<IntValue<uint16_t>>(is_list);
    case DuckType::kUInteger:
      return Make<IntValue<uint32_t>>(is_list);
    case DuckType::kUBigint:
      return Make<LargeIntValue<uint64_t>>(is_list);
    case DuckType::kHugeint:
      return Make<LargeIntValue<Int128>>(is_list);
    case DuckType::kUHugeint:
      return Make<LargeIntValue<UInt128>>(is_list);
    case DuckType::kFloat:
      return Make<FloatValue>(is_list);
    case DuckType::kDouble:
      return Make<DoubleValue>(is_list);
    case DuckType::kDecimal:
      return MakeDecimalCells(duckdb, type, is_list);
    case DuckType::kDate:
      return Make<DateValue>(is_list);
    case DuckType::kTimestamp:
      return Make(is_list, TimestampValue{.digits = 6});
    case DuckType::kTimestampS:
      return Make(is_list, TimestampValue{.digits = 0});
    case DuckType::kTimestampMs:
      return Make(is_list, TimestampValue{.digits = 3});
    case DuckType::kTimestampNs:
      return Make(is_list, TimestampValue{.digits = 9});
    case DuckType::kTimestampTz:
      return Make(is_list, TimestampValue{.digits = 6, .has_zone = true});
    case DuckType::kVarchar:
    case DuckType::kBlob:
      return Make<TextValue>(is_list);
    case DuckType::kEnum:
      return MakeEnumCells(duckdb, type, is_list);
    case DuckType::kSqlNull:
      return Make<NullValue>(is_list);
    case DuckType::kList:
      break;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<TableCells> MakeTableCells(const DuckDbApi& duckdb, DuckHandle type) {
  if (duckdb.get_type_id(type) != DuckType::kList) return MakeCells(duckdb, type, false);
  const TypeHandle element(duckdb, duckdb.list_type_child_type(type));
  return MakeCells(duckdb, element.get(), true);
}

std::string TableTypeName(const DuckDbApi& duckdb, DuckHandle type) {
  // By duckdb_type.
  constexpr std::array kNames = {"INVALID",
                                 "BOOLEAN",
                                 "TINYINT",
                                 "SMALLINT",
                                 "INTEGER",
                                 "BIGINT",
                                 "UTINYINT",
                                 "USMALLINT",
                                 "UINTEGER",
                                 "UBIGINT",
                                 "FLOAT",
                                 "DOUBLE",
                                 "TIMESTAMP",
                                 "DATE",
                                 "TIME",
                                 "INTERVAL",
                                 "HUGEINT",
                                 "VARCHAR",
                                 "BLOB",
                                 "DECIMAL",
                                 "TIMESTAMP_S",
                                 "TIMESTAMP_MS",
                                 "TIMESTAMP_NS",
                                 "ENUM",
                                 "LIST",
                                 "STRUCT",
                                 "MAP",
                                 "UUID",
                                 "UNION",
                                 "BIT",
                                 "TIME WITH TIME ZONE",
                                 "TIMESTAMP WITH TIME ZONE",
                                 "UHUGEINT",
                                 "ARRAY",
                                 "ANY",
                                 "BIGNUM",
                                 "NULL"};
  const auto number = static_cast<size_t>(duckdb.get_type_id(type));
  if (static_cast<DuckType>(number) == DuckType::kList) {
    const TypeHandle element(duckdb, duckdb.list_type_child_type(type));
    return "LIST of " + TableTypeName(duckdb, element.get());
  }
  return number < kNames.size() ? kNames[number] : "type " + std::to_string(number);
}

}  // namespace millrace::io
