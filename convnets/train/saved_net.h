// SPDX-License-Identifier: Apache-2.0
// A net in a model file, and the evaluation of a net on a set of images.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "convnets/input/image_set.h"
#include "convnets/net/net.h"
#include "convnets/net/net_spec.h"
#include "convnets/net/params.h"
#include "convnets/train/net_file.h"
#include "io/base/status.h"
#include "io/state/state_fields.h"

namespace millrace::convnets {

// What a state file says about the net in it: kind, name, number of classes and of parameters.
io::StateFields NetFields(const char* kind, const NetSpec& spec);
// The arrays of a model file.
FloatArrays WeightsOf(const Params& params);

struct SavedNet {
  NetSpec spec;
  Params params;
  ImageOptions images;    // the preprocessing of the training's test images
  uint64_t examples = 0;  // trained on
};
// `path` is a model file of kind "net".
Result<SavedNet> LoadNet(const std::string& path);

struct EvaluateOptions {
  size_t batch_size = EngineOptions{}.max_batch;  // at most the engine's max_batch
  size_t input_threads = 1;                       // that decode images
  // If set: called with each batch, in the order of the images, and the outputs of the last layer,
  // [images][classes].
  std::function<Status(const Batch& batch, std::span<const float> scores)> on_scores = nullptr;
  size_t classes = 0;  // of the net; used with on_scores
};
// The loss and the correct images of the whole set; see Net::Evaluate.
Result<Outcome> EvaluateImages(Net& net, const ImageSet& images, const EvaluateOptions& options);

}  // namespace millrace::convnets
