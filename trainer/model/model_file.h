// SPDX-License-Identifier: Apache-2.0
// Model files: the nonzero weights of a model and its description. docs/formats.md has the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/record/output_file.h"
#include "sparse/local_store.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// A model that can be saved, in this process or on servers.
struct ModelSource {
  ModelInfo info;  // without the number of weights
  // Calls visit(key, weight, factors) for each feature with a weight or factor that is not zero, in
  // the order of keys. May be called again. A linear model, and the intercept, have no factors.
  using Visit = std::function<void(uint64_t key, float weight, std::span<const float> factors)>;
  std::function<Status(const Visit& visit)> for_each;
};

// `store` outlives the source. `examples`: the number that the model was trained on.
ModelSource SourceOf(const sparse::LocalStore& store, uint64_t examples);

enum class ModelFormat {
  kBinary,  // a state file: checksummed and compressed
  kText,    // one line "key<TAB>weight[<TAB>factors]" per feature; the last key is "intercept"
  kNpy,     // for numpy; an export that is not read back
};
// Accepts "binary", "text", "npy".
Result<ModelFormat> ModelFormatFromName(std::string_view name);

// The file appears complete or not at all; until then an earlier file of that name stays. A weight
// that is not finite is an error. `examples`: the number that the model was trained on.
Status SaveModel(const ModelSource& source, const std::string& path, ModelFormat format,
                 io::AtPath at_path = io::AtPath::kFollow);
Status SaveModel(const sparse::LocalStore& store, const std::string& path, ModelFormat format,
                 uint64_t examples = 0);

// A binary or text model, or a checkpoint's weights.
Result<Model> LoadModel(const std::string& path);

// The weights of a file that LoadModel takes, as the start of training a model of `shape` with that
// rule (with `may_grow` the file's num_features may be smaller); `take` gets them piece by piece,
// keys ascending, with the factors [keys][width] if the file has any: a factorization machine may
// start from the weights of an lr. A model of another num_features or of another kind, one with an
// intercept where `shape` has none, or a corrupt one is an error. Nothing is taken then.
using TakeWeights =
    std::function<Status(std::span<const uint64_t> keys, std::span<const float> weights,
                         std::span<const float> factors)>;
Status ReadModelFor(const std::string& path, const sparse::ModelShape& shape,
                    const sparse::UpdateOptions& options, bool may_grow, const TakeWeights& take);

// Sets the weights of a store that has no state yet to those of a file that LoadModel takes. Errors
// are those of ReadModelFor and leave the store unchanged.
Status WarmStart(const std::string& path, sparse::LocalStore& store, bool may_grow = false);

}  // namespace millrace::trainer
