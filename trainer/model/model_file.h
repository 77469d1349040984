// Model files: the weights of a model that are not zero, and what they belong to. docs/formats.md
// has the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "sparse/local_store.h"
#include "trainer/model/model.h"
#include "trainer/model/model_info.h"

namespace millrace::trainer {

enum class ModelFormat {
  kBinary,  // a state file: checksummed and compressed
  kText,    // a line "key<TAB>weight" for each
  kNpy,     // for numpy; an export that is not read back
};
// Accepts "binary", "text", "npy".
io::Result<ModelFormat> ModelFormatFromName(std::string_view name);

// The file appears whole or not at all; an earlier one of that name stays until then. A weight that
// is not finite is an error. `examples` is how many the model has learnt from.
io::Status SaveModel(const sparse::LocalStore& store, const std::string& path, ModelFormat format,
                     uint64_t examples = 0);

// A binary or text model, or a checkpoint's weights.
io::Result<Model> LoadModel(const std::string& path);

// Sets the weights of a store that has learnt nothing yet to those of a file that LoadModel takes.
// A model of another num_features or a damaged one is an error, and the store is as it was.
io::Status WarmStart(const std::string& path, sparse::LocalStore& store);

}  // namespace millrace::trainer
