#include "io/rows/named_features.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "io/example/feature_view.h"
#include "io/record/block_reader.h"

namespace millrace::io {
namespace {

// Of all files together, where there are not very many: some hundred thousand records.
constexpr uint64_t kLookedBytes = 128 << 20;
constexpr uint64_t kLeastBytes = 64 << 10;  // of each

struct Wanted {
  const char* role;
  std::string name;
};

class Search {
 public:
  explicit Search(std::vector<Wanted> wanted) : wanted_(std::move(wanted)) {}

  bool done() const { return wanted_.empty(); }

  void LookInto(const std::string& file, uint64_t bytes) {
    const auto reader = BlockReader::Open(file, {.block_bytes = kLeastBytes});
    Block block;
    if (!reader.ok()) return;
    for (uint64_t looked = 0; looked < bytes && !done(); looked += block.bytes.size()) {
      const Result<bool> more = (*reader)->Next(block);
      if (!more.ok() || !*more) break;
      for (size_t i = 0; i < block.records.size() && !done(); ++i) LookAt(file, block, i);
    }
    ++files_;
  }

  Status Verdict() const {
    if (done() || records_ == 0) return {};
    return Invalid(first_ + ": " + wanted_[0].role + " feature '" + wanted_[0].name +
                   "': expected it in some record, found it in none of the first " +
                   std::to_string(records_) + " of " + std::to_string(files_) +
                   (files_ == 1 ? " file" : " files") + "; this record has " + first_features_ +
                   ": correct --" + wanted_[0].role + "_feature");
  }

 private:
  void LookAt(const std::string& file, const Block& block, size_t i) {
    if (!ParseExample(block.record(i), view_).ok()) return;
    if (records_++ == 0) {
      first_ = file + ": offset " + std::to_string(block.offset(i, Framing::kTfRecord));
      first_features_ = ListFeatures(view_);
    }
    std::erase_if(wanted_, [&](const Wanted& wanted) { return view_.Find(wanted.name); });
  }

  std::vector<Wanted> wanted_;
  ExampleView view_;
  uint64_t files_ = 0;    // that were looked into
  uint64_t records_ = 0;  // likewise
  std::string first_, first_features_;
};

}  // namespace

Status CheckNamedFeatures(const std::vector<std::string>& files, const FeatureNames& names) {
  std::vector<Wanted> wanted;
  if (names.value != FeatureNames{}.value && !names.value.empty()) {
    wanted.push_back({"value", names.value});
  }
  if (!names.weight.empty()) wanted.push_back({"weight", names.weight});
  Search search(std::move(wanted));
  const uint64_t share = std::max(kLeastBytes, kLookedBytes / std::max<size_t>(files.size(), 1));
  for (const std::string& file : files) {
    if (search.done()) break;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) search.LookInto(file, share);
  }
  return search.Verdict();
}

}  // namespace millrace::io
