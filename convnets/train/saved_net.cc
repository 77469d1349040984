// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/saved_net.h"

#include <new>
#include <utility>
#include <vector>

#include "convnets/input/batch_source.h"
#include "io/state/state_file.h"

namespace millrace::convnets {
namespace {

Result<SavedNet> NetFrom(const io::StateFields& fields) {
  NetOptions options;
  ASSIGN_OR_RETURN(options.name, fields.Text("net"));
  ASSIGN_OR_RETURN(options.num_classes, fields.Uint("classes"));
  ASSIGN_OR_RETURN(const uint64_t examples, fields.Uint("examples"));
  ASSIGN_OR_RETURN(NetSpec spec, MakeNet(options));
  ImageOptions images;
  images.shape = spec.input;
  images.num_classes = spec.classes();
  RETURN_IF_ERROR(TakeImageOptions(fields, images));
  Params params(spec);
  return SavedNet{std::move(spec), std::move(params), std::move(images), examples};
}

}  // namespace

io::StateFields NetFields(const char* kind, const NetSpec& spec) {
  io::StateFields fields;
  fields.Add("kind", kind);
  fields.Add("net", spec.name);
  fields.AddUint("classes", spec.classes());
  fields.AddUint("parameters", spec.parameters());
  return fields;
}

FloatArrays WeightsOf(const Params& params) {
  FloatArrays arrays;
  for (size_t p = 0; p < params.size(); ++p) arrays.push_back(params.weights(p));
  return arrays;
}

Result<SavedNet> LoadNet(const std::string& path) {
  ASSIGN_OR_RETURN(const io::StateReader reader, io::StateReader::Open(path));
  const Result<std::string> kind = reader.fields().Text("kind");
  if (!kind.ok() || *kind != "net") {
    return Invalid(path + ": expected the model of a net, found a state file of kind " +
                   (kind.ok() ? *kind : "none"));
  }
  try {
    Result<SavedNet> net = NetFrom(reader.fields());
    if (!net.ok()) return Corrupt(path + ": " + net.status().message());
    RETURN_IF_ERROR(LoadArrays(path, NetFields("net", net->spec), WeightsOf(net->params)).status());
    return net;
  } catch (const std::bad_alloc&) {
    return Invalid(path + ": not enough memory for the net");
  }
}

Result<Outcome> EvaluateImages(Net& net, const ImageSet& images, const EvaluateOptions& options) {
  Outcome sum;
  std::vector<float> scores(options.on_scores ? options.batch_size * options.classes : 0);
  BatchSource source(images, {.order = {.batch_size = options.batch_size, .shuffle = false},
                              .begin = 0,
                              .end = (images.size() + options.batch_size - 1) / options.batch_size,
                              .threads = images.slow() ? options.input_threads : 0});
  Batch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, source.Next(batch));
    if (!more) return sum;
    const std::span<float> found =
        std::span(scores).first(options.on_scores ? batch.images() * options.classes : 0);
    const Outcome outcome = net.Evaluate(batch, found);
    sum.loss += outcome.loss;
    sum.correct += outcome.correct;
    if (options.on_scores) RETURN_IF_ERROR(options.on_scores(batch, found));
  }
}

}  // namespace millrace::convnets
