// SPDX-License-Identifier: Apache-2.0
#include "io/stream/file_list.h"

#include <glob.h>

#include <cstring>
#include <filesystem>

#include "io/record/record_reader.h"
#include "io/record/remote_files.h"
#include "io/table/table_query.h"

namespace millrace::io {
namespace {

constexpr int kMaxListDepth = 8;
constexpr uint64_t kMaxLineBytes = 1 << 20;  // of a list
constexpr size_t kMaxFiles = 1'000'000;

Status Expand(std::string_view patterns, int depth, std::vector<std::string>& files);

Status ExpandListFile(const std::string& path, int depth, std::vector<std::string>& files) {
  if (depth >= kMaxListDepth) return Invalid("@" + path + ": lists within lists, more than 8 deep");
  ASSIGN_OR_RETURN(RecordReader lines, RecordReader::Open(path, {.framing = Framing::kLines,
                                                                 .max_record_bytes = kMaxLineBytes,
                                                                 .regular_file = path != "-"}));
  RecordView line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, lines.Next(line));
    if (!more) return {};
    if (line.bytes.empty() || line.bytes.front() == '#') continue;
    RETURN_IF_ERROR(Expand(line.bytes, depth + 1, files));
    if (files.size() > kMaxFiles)
      return Invalid("@" + path + ": expected at most " + std::to_string(kMaxFiles) + " files");
  }
}

Status ExpandGlob(const std::string& pattern, std::vector<std::string>& files) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (code == 0) return {};
  if (code == GLOB_NOMATCH) return NotFound(pattern + ": no file matches");
  return Status(Code::kIo, pattern + ": cannot list the folder");
}

Status ExpandOne(std::string_view pattern, int depth, std::vector<std::string>& files) {
  const std::string text(pattern);
  if (pattern.empty()) return {};
  if (pattern.front() == '@') return ExpandListFile(text.substr(1), depth, files);
  if (IsRemote(text)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found, ExpandRemote(text));
    files.insert(files.end(), found.begin(), found.end());
    return {};
  }
  std::error_code ignored;
  const bool is_pattern = pattern.find_first_of("*?[{~") != std::string_view::npos;
  if (!is_pattern || std::filesystem::exists(text, ignored)) {  // a name may well have a [
    files.push_back(text);
    return {};
  }
  return ExpandGlob(text, files);
}

// Splits at commas, but not inside braces.
Status Expand(std::string_view patterns, int depth, std::vector<std::string>& files) {
  size_t begin = 0;
  int braces = 0;
  for (size_t i = 0; i <= patterns.size(); ++i) {
    const char c = i < patterns.size() ? patterns[i] : ',';
    if (c == '{') ++braces;
    if (c == '}') --braces;
    if (c != ',' || (braces > 0 && i < patterns.size())) continue;
    RETURN_IF_ERROR(ExpandOne(patterns.substr(begin, i - begin), depth, files));
    begin = i + 1;
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> ExpandFiles(std::string_view patterns) {
  if (IsQuery(patterns)) return std::vector<std::string>{std::string(patterns)};
  std::vector<std::string> files;
  RETURN_IF_ERROR(Expand(patterns, 0, files));
  if (files.empty())
    return Invalid("no input files: expected file names or globs, found '" + std::string(patterns) +
                   "'");
  return files;
}

}  // namespace millrace::io
