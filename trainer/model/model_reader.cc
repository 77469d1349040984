// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model_reader.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "io/record/byte_source.h"
#include "trainer/model/model_text.h"
#include "trainer/run/run_folder.h"

namespace millrace::trainer {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Other state files have other fields.
Status CheckKind(const std::string& path, const io::StateFields& fields) {
  const Result<std::string> kind = fields.Text("kind");
  if (!kind.ok()) return {};
  const std::string expected = path + ": expected a model of millrace-lr, found ";
  if (kind->starts_with("net")) {
    const Result<std::string> net = fields.Text("net");
    return Invalid(expected + "the net " + (net.ok() ? *net : "") +
                   ": millrace-predict scores images with it, and millrace-convnet takes it as its "
                   "model_in");
  }
  const Result<uint64_t> shards = fields.Uint("shards");
  if (*kind == "shard" || (shards.ok() && *shards > 1)) {
    return Invalid(expected +
                   "the checkpoint of one server, which has a part of the weights: the model "
                   "of the whole job is in its run folder, model/model.bin");
  }
  return {};
}

class BinaryModelReader final : public ModelReader {
 public:
  static Result<std::unique_ptr<ModelReader>> Open(const std::string& path) {
    ASSIGN_OR_RETURN(io::StateReader states, io::StateReader::Open(path));
    RETURN_IF_ERROR(CheckKind(path, states.fields()));
    Result<ModelInfo> info = ModelInfoFrom(states.fields());
    if (!info.ok()) return Corrupt(path + ": " + info.status().message());
    const size_t numbers = 1 + info->factors.width();
    if (states.floats_per_entry() < numbers) {
      return Corrupt(path + ": expected at least " + std::to_string(numbers) +
                     " numbers a feature of " + sparse::KindText(info->factors) + ", found " +
                     std::to_string(states.floats_per_entry()));
    }
    return std::unique_ptr<ModelReader>(
        std::make_unique<BinaryModelReader>(path, std::move(*info), std::move(states)));
  }
  BinaryModelReader(std::string path, ModelInfo info, io::StateReader states)
      : ModelReader(std::move(path), std::move(info)), states_(std::move(states)) {}

 private:
  Result<bool> ReadBlock(io::StateBlock& block) override { return states_.Next(block); }

  io::StateReader states_;
};

using FirstBytes = std::array<char, io::kStateMagicBytes>;

// What the file begins with, zeros behind a shorter one.
Result<FirstBytes> Peek(const std::string& path) {
  ASSIGN_OR_RETURN(const io::OpenedSource source, io::OpenSource(path, /*regular_file=*/true));
  FirstBytes first = {};
  size_t got = 0;
  RETURN_IF_ERROR(source.bytes->Read(first, &got));
  return first;
}

}  // namespace

Result<std::unique_ptr<ModelReader>> ModelReader::Open(const std::string& file_or_run) {
  if (file_or_run == "-") {
    return Invalid("a model is read from a file, not from standard input");
  }
  ASSIGN_OR_RETURN(const std::string path, ModelFileOf(file_or_run));
  ASSIGN_OR_RETURN(const FirstBytes bytes, Peek(path));
  const std::string_view first(bytes.data(), bytes.size());
  if (first.starts_with(io::kStateMagic)) return BinaryModelReader::Open(path);
  if (first.starts_with('#')) return OpenTextModel(path);
  if (first.starts_with(kNpyMagic)) {
    return Invalid(path + ": .npy is an export only: expected a binary or text model");
  }
  return Corrupt(path + ": offset 0: expected a model, that is " + io::kStateMagic + " or '" +
                 std::string(kTextModelMark) + "', found neither");
}

Result<bool> ModelReader::Next(io::StateBlock& block) {
  ASSIGN_OR_RETURN(const bool more, ReadBlock(block));
  if (!more) return false;
  const std::span<const uint64_t> features = io::FeatureKeys(block.keys);
  if (info_.num_features > 0 && !features.empty() && features.back() >= info_.num_features) {
    return Corrupt(path_ + ": expected keys below " + ShapeText(info_.num_features) + ", found " +
                   std::to_string(features.back()));
  }
  for (size_t i = 0; i < block.size(); ++i) {
    for (const float number : block.state(i).first(1 + info_.factors.width())) {
      if (std::isfinite(number)) continue;
      return Corrupt(path_ + ": weight of key " + io::KeyName(block.keys[i]) +
                     ": expected a finite number, found " + io::NumberText(number));
    }
  }
  return true;
}

}  // namespace millrace::trainer
