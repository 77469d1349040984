// SPDX-License-Identifier: Apache-2.0
#include "io/text/json_columns.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <deque>
#include <unordered_map>

#include "io/text/json_error.h"
#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

using simdjson::dom::element_type;

constexpr uint32_t kNone = UINT32_MAX;

struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// The members of an object that are columns or contain some. Rows of a file mostly have their
// members in the same order, and some lack some of them. So each member remembers the one that
// follows it, and a lookup is then few comparisons.
class MemberNames {
 public:
  struct Member {
    std::string name;
    uint32_t column = kNone;
    std::unique_ptr<MemberNames> members = {};  // columns inside of it
    Member* next = nullptr;                     // the member that follows
  };

  Member& Add(std::string_view name) {
    if (const auto found = index_.find(name); found != index_.end()) return *found->second;
    Member& member = members_.emplace_back();
    member.name = name;
    index_.emplace(name, &member);
    return member;
  }

  void BeginObject() { next_ = &first_; }

  // Of the next member of the object; null if it has no column.
  Member* Find(std::string_view name) {
    Member* member = *next_;
    for (int i = 0; i < kMaxSkipped && member; ++i, member = member->next) {
      if (member->name == name) {
        next_ = &member->next;
        return member;
      }
    }
    return FindUnexpected(name);
  }

 private:
  static constexpr size_t kMaxMembers = 4096;
  static constexpr size_t kMaxName = 256;
  static constexpr int kMaxSkipped = 4;

  [[gnu::noinline]] Member* FindUnexpected(std::string_view name) {
    Member* const member = Lookup(name);
    if (!member) return nullptr;
    // It comes before the member that was expected.
    if (!member->next) member->next = *next_;
    *next_ = member;
    next_ = &member->next;
    return member;
  }

  // Members without a column are remembered as well, within limits.
  Member* Lookup(std::string_view name) {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    const bool is_room = members_.size() < kMaxMembers && name.size() <= kMaxName;
    return is_room ? &Add(name) : nullptr;
  }

  std::deque<Member> members_;  // pointers to them stay valid
  std::unordered_map<std::string, Member*, HashOfText, std::equal_to<>> index_;
  Member* first_ = nullptr;
  Member** next_ = &first_;
};

const char* TypeName(element_type type) {
  switch (type) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "true or false";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

std::string_view WithoutMark(std::string_view text) {
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
}

bool IsColumn(const simdjson::dom::element& value) {
  if (!value.is_array()) return true;
  const simdjson::dom::array items = value.get_array().value_unsafe();
  return std::none_of(items.begin(), items.end(), [](const simdjson::dom::element& item) {
    return item.is_array() || item.is_object();
  });
}

void AddNames(const simdjson::dom::object& object, const std::string& prefix,
              std::vector<std::string>& names) {
  for (const auto& [name, value] : object) {
    const std::string path = prefix + std::string(name);
    if (value.is_object()) {
      AddNames(value.get_object().value_unsafe(), path + ".", names);
    } else if (IsColumn(value)) {
      names.push_back(path);
    }
  }
}

}  // namespace

Result<std::vector<std::string>> JsonColumnNames(std::string_view record) {
  std::vector<std::string> names;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  record = WithoutMark(record);
  if (record.find_first_not_of(" \t\r\n") == record.npos) return names;
  if (const auto error = parser.parse(record.data(), record.size(), true).get(object)) {
    return Corrupt(DescribeJsonError(record, simdjson::error_message(error)));
  }
  AddNames(object, "", names);
  return names;
}

class JsonColumns::Parser {
 public:
  explicit Parser(const std::vector<std::string>& wanted) : wanted_(wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      AddColumn(wanted[i], static_cast<uint32_t>(i));
    }
  }

  Result<bool> Read(std::string_view record, FieldRow& row) {
    row.Clear(wanted_.size());
    digits_.clear();
    record = WithoutMark(record);
    if (record.find_first_not_of(" \t\r\n") == record.npos) return false;
    // A power of two: rows that become longer and longer do not allocate each time.
    if (parser_.capacity() < record.size() &&
        parser_.allocate(std::bit_ceil(record.size())) != simdjson::SUCCESS) {
      return Status(Code::kIo,
                    "no memory for a JSON record of " + std::to_string(record.size()) + " bytes");
    }
    simdjson::dom::element root;
    // Copies the record, because the parser reads past its end: that costs 3 % of the parsing.
    if (const auto error = parser_.parse(record.data(), record.size(), true).get(root)) {
      return Corrupt(DescribeJsonError(record, simdjson::error_message(error)));
    }
    simdjson::dom::object object;
    if (root.get(object) != simdjson::SUCCESS) {
      return Corrupt(std::string("expected a JSON object, found ") + TypeName(root.type()));
    }
    if (!ReadObject(object, names_, row)) return error_;
    return true;
  }

 private:
  void AddColumn(std::string_view name, uint32_t column) {
    names_.Add(name).column = column;
    MemberNames* names = &names_;
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
      MemberNames::Member& member = names->Add(name.substr(0, dot));
      if (!member.members) member.members = std::make_unique<MemberNames>();
      names = member.members.get();
      name.remove_prefix(dot + 1);
    }
    names->Add(name).column = column;
  }

  // These three return false after an error, which is in error_.
  bool ReadObject(const simdjson::dom::object& object, MemberNames& names, FieldRow& row) {
    names.BeginObject();
    for (const auto& [name, value] : object) {
      MemberNames::Member* const member = names.Find(name);
      if (!member) continue;
      if (member->column == kNone) {
        if (!member->members || !value.is_object()) continue;
        if (!ReadObject(value.get_object().value_unsafe(), *member->members, row)) return false;
        continue;
      }
      row.Begin(member->column);
      if (!ReadValue(value, member->column, row)) return false;
    }
    return true;
  }

  bool ReadValue(const simdjson::dom::element& value, uint32_t column, FieldRow& row) {
    if (!value.is_array()) return ReadScalar(value, column, row);
    const simdjson::dom::array items = value.get_array().value_unsafe();
    for (const simdjson::dom::element item : items) {
      if (!ReadScalar(item, column, row)) return false;
    }
    return true;
  }

  bool ReadScalar(const simdjson::dom::element& value, uint32_t column, FieldRow& row) {
    switch (value.type()) {
      case element_type::STRING:
        row.AddText(value.get_string().value_unsafe());
        return true;
      case element_type::INT64:
        row.AddInt(value.get_int64().value_unsafe());
        return true;
      case element_type::UINT64:
        row.AddText(Digits(value.get_uint64().value_unsafe()));
        return true;
      case element_type::DOUBLE:
        row.AddDouble(value.get_double().value_unsafe());
        return true;
      case element_type::BOOL:
        row.AddText(value.get_bool().value_unsafe() ? "true" : "false");
        return true;
      case element_type::NULL_VALUE:
        return true;
      default:
        error_ = Corrupt("column '" + wanted_[column] +
                         "': expected a string, a number, true, false, null or an array of these, "
                         "found " +
                         TypeName(value.type()));
        return false;
    }
  }

  std::string_view Digits(uint64_t number) {
    auto& digits = digits_.emplace_back();
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
  }

  std::vector<std::string> wanted_;
  MemberNames names_;
  simdjson::dom::parser parser_;
  Status error_;
  std::deque<std::array<char, 24>> digits_;
};

JsonColumns::JsonColumns(const std::vector<std::string>& wanted)
    : parser_(std::make_unique<Parser>(wanted)) {}
JsonColumns::~JsonColumns() = default;

Result<bool> JsonColumns::Read(std::string_view record, FieldRow& row) {
  return parser_->Read(record, row);
}

}  // namespace millrace::io
