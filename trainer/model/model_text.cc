// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "io/record/record_reader.h"
#include "sparse/centers.h"

namespace millrace::trainer {
namespace {

constexpr std::string_view kComment = "# ";
constexpr std::string_view kEnd = "# weights ";
constexpr std::string_view kIntercept = "intercept";
constexpr size_t kBlockEntries = 16384;
constexpr uint64_t kMaxLineBytes = 1 << 20;  // some thousand centers

template <typename Number>
bool Parse(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

class TextModelReader final : public ModelReader {
 public:
  TextModelReader(const std::string& path, io::RecordReader lines)
      : ModelReader(path, {}), lines_(std::move(lines)) {}

  // Leaves the first line behind the header in line_.
  Status ReadHeader() {
    RETURN_IF_ERROR(NextLine());
    if (line_ != kTextModelMark) return Malformed("'" + std::string(kTextModelMark) + "'");
    std::string fields;
    RETURN_IF_ERROR(NextLine());
    while (IsHeaderLine()) {
      if (fields.size() > io::kMaxStateFieldBytes)
        return Malformed("weights behind so long a header");
      fields += line_.substr(kComment.size());
      fields += '\n';
      RETURN_IF_ERROR(NextLine());
    }
    Status status = TakeInfo(fields);
    return status.ok() ? status : Corrupt(path_ + ": " + status.message());
  }

 private:
  Result<bool> ReadBlock(io::StateBlock& block) override {
    block.keys.clear();
    block.floats.clear();
    block.floats_per_entry = 1 + info_.factors.width();
    while (block.size() < kBlockEntries && !IsEndLine()) {
      RETURN_IF_ERROR(TakeEntry(block));
      RETURN_IF_ERROR(NextLine());
    }
    if (block.size() > 0) return true;
    RETURN_IF_ERROR(TakeEnd());
    return false;
  }

  bool IsEndLine() const { return line_.starts_with(kEnd); }
  bool IsHeaderLine() const { return line_.starts_with(kComment) && !IsEndLine(); }

  Status TakeInfo(const std::string& text) {
    ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(text));
    ASSIGN_OR_RETURN(info_, ModelInfoFrom(fields));
    const bool shifts = info_.factors.kind == sparse::ModelKind::kLr;
    shift_.emplace(shifts ? info_.centers : std::vector<io::ValueCenter>());
    return {};
  }

  Status TakeEntry(io::StateBlock& block) {
    const size_t tab = line_.find('\t');
    const size_t width = info_.factors.width();
    const size_t second_tab = tab == line_.npos ? tab : line_.find('\t', tab + 1);
    uint64_t key = 0;
    double weight = 0;
    const std::string_view name = line_.substr(0, tab);
    if (name == kIntercept) key = io::kInterceptKey;
    if (tab == line_.npos || (name != kIntercept && !Parse(name, key)) ||
        !Parse(line_.substr(tab + 1, second_tab - tab - 1), weight) ||
        (width == 0 && second_tab != line_.npos)) {
      return Malformed("a key, a tab and a weight, or '" + std::string(kEnd) + "N' at the end");
    }
    if (entries_ > 0 && key <= last_key_) {
      return Malformed("a key above " + io::KeyName(last_key_) + " (keys ascend)");
    }
    last_key_ = key;
    ++entries_;
    if (key == io::kInterceptKey) weight += shift_->sum();
    block.keys.push_back(key);
    block.floats.push_back(static_cast<float>(weight));
    shift_->Add(key, block.floats.back());
    return width == 0 ? Status() : TakeFactors(second_tab, width, block);
  }

  // None stand for zeros.
  Status TakeFactors(size_t tab, size_t width, io::StateBlock& block) {
    std::string_view rest = tab == line_.npos ? std::string_view() : line_.substr(tab + 1);
    const bool has_factors = tab != line_.npos;
    for (size_t f = 0; f < width; ++f) {
      const size_t space = std::min(rest.find(' '), rest.size());
      float factor = 0;
      const bool is_last = f + 1 == width;
      if (has_factors &&
          (!Parse(rest.substr(0, space), factor) || is_last != (space == rest.size()))) {
        return Malformed("a key, a weight and " + std::to_string(width) + " factors");
      }
      rest.remove_prefix(std::min(space + 1, rest.size()));
      block.floats.push_back(factor);
    }
    return {};
  }

  Status TakeEnd() {
    uint64_t count = 0;
    if (!Parse(line_.substr(kEnd.size()), count) || count != entries_) {
      return Malformed("'" + std::string(kEnd) + std::to_string(entries_) + "'");
    }
    RETURN_IF_ERROR(NextLine());
    return ended_ ? Status() : Malformed("the end of the file");
  }

  // At the end of the file line_ is an empty one that no step accepts.
  Status NextLine() {
    const uint64_t end = line_offset_ + line_.size();
    io::RecordView record;
    ASSIGN_OR_RETURN(const bool more, lines_.Next(record));
    ended_ = !more;
    line_ = more ? record.bytes : std::string_view();
    line_offset_ = more ? record.offset : end;
    return {};
  }

  Status Malformed(const std::string& expected) const {
    std::string found =
        ended_ ? "the end of the file" : "'" + std::string(line_.substr(0, 60)) + "'";
    for (char& c : found) c = c < ' ' || c > '~' ? '?' : c;
    return Corrupt(path_ + ": offset " + std::to_string(line_offset_) + ": expected " + expected +
                   ", found " + found);
  }

  io::RecordReader lines_;
  std::optional<sparse::CenterSum> shift_;
  std::string_view line_;
  uint64_t line_offset_ = 0;
  bool ended_ = false;
  uint64_t entries_ = 0;
  uint64_t last_key_ = 0;
};

}  // namespace

Result<std::unique_ptr<ModelReader>> OpenTextModel(const std::string& path) {
  const io::BlockOptions options = {
      .framing = io::Framing::kLines, .max_record_bytes = kMaxLineBytes, .regular_file = true};
  ASSIGN_OR_RETURN(io::RecordReader lines, io::RecordReader::Open(path, options));
  auto reader = std::make_unique<TextModelReader>(path, std::move(lines));
  RETURN_IF_ERROR(reader->ReadHeader());
  return std::unique_ptr<ModelReader>(std::move(reader));
}

void WriteTextModelHead(const ModelInfo& info, OutputBuffer& out) {
  io::StateFields fields;
  AddModelInfo(info, fields);
  std::string text = std::string(kTextModelMark) + '\n' + fields.Encode();
  for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
    text.insert(at + 1, kComment);
  }
  out.Append(text);
}

void WriteTextModelEntry(uint64_t key, double weight, std::span<const float> factors,
                         OutputBuffer& out) {
  char line[64];
  const auto narrow = static_cast<float>(weight);
  char* at = key == io::kInterceptKey ? std::copy(kIntercept.begin(), kIntercept.end(), line)
                                      : std::to_chars(line, line + 24, key).ptr;
  *at++ = '\t';
  at = (static_cast<double>(narrow) == weight ? std::to_chars(at, at + 24, narrow)
                                              : std::to_chars(at, at + 32, weight))
           .ptr;
  out.Append({line, static_cast<size_t>(at - line)});
  for (size_t f = 0; f < factors.size(); ++f) {
    at = line;
    *at++ = f == 0 ? '\t' : ' ';
    at = std::to_chars(at, at + 24, factors[f]).ptr;
    out.Append({line, static_cast<size_t>(at - line)});
  }
  out.Append("\n");
}

void WriteTextModelEnd(uint64_t weights, OutputBuffer& out) {
  out.Append(std::string(kEnd) + std::to_string(weights) + '\n');
}

}  // namespace millrace::trainer
