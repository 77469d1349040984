// WarmStart of model_file.h.
#include "sparse/update_options.h"
#include "trainer/model/model_file.h"
#include "trainer/model/model_reader.h"

namespace millrace::trainer {
namespace {

using sparse::Rule;

Status CheckFit(const std::string& path, const ModelInfo& info, uint64_t num_features,
                const sparse::UpdateOptions& options) {
  if (info.num_features != num_features) {
    return Invalid(path + ": expected a model of " + ShapeText(num_features) + ", found one of " +
                   ShapeText(info.num_features));
  }
  if (options.rule == Rule::kFtrl && options.ftrl_beta == 0 && options.l2 == 0) {
    return Invalid("a warm start with ftrl: expected ftrl_beta or l2 above 0, found both 0");
  }
  return {};
}

// Reads the file to its end, with `take` called for each block.
template <typename Take>
Status ReadAll(ModelReader& reader, Take take) {
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) return {};
    RETURN_IF_ERROR(take(block));
  }
}

}  // namespace

Status ReadModelFor(const std::string& path, uint64_t num_features,
                    const sparse::UpdateOptions& options, const TakeWeights& take) {
  ASSIGN_OR_RETURN(const auto first_pass, ModelReader::Open(path));
  RETURN_IF_ERROR(CheckFit(path, first_pass->info(), num_features, options));
  // Once for the checks alone: nothing of a corrupt file may be taken.
  RETURN_IF_ERROR(ReadAll(*first_pass, [](const io::StateBlock&) { return Status(); }));
  ASSIGN_OR_RETURN(const auto second_pass, ModelReader::Open(path));
  PodVector<float> weights;
  return ReadAll(*second_pass, [&](const io::StateBlock& block) -> Status {
    weights.resize(block.size());
    for (size_t i = 0; i < block.size(); ++i) weights[i] = block.state(i)[0];
    return take(block.keys, weights);
  });
}

Status WarmStart(const std::string& path, sparse::LocalStore& store) {
  return ReadModelFor(
      path, store.shape().num_features, store.options(),
      [&](std::span<const uint64_t> keys, std::span<const float> weights) -> Status {
        for (size_t i = 0; i < keys.size(); ++i)
          RETURN_IF_ERROR(store.LoadWeight(keys[i], weights[i]));
        return {};
      });
}

}  // namespace millrace::trainer
