#include "trainer/model/model_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/state/state_writer.h"
#include "profiler/trace.h"
#include "trainer/model/model_reader.h"
#include "trainer/model/model_text.h"
#include "trainer/model/npy_file.h"
#include "trainer/model/output_buffer.h"

namespace millrace::trainer {
namespace {

using io::Result;
using io::Status;

ModelInfo InfoOf(const sparse::LocalStore& store, uint64_t examples) {
  return {.num_features = store.shape().num_features,
          .rule = sparse::RuleName(store.options().rule),
          .steps = store.steps(),
          .examples = examples};
}

// Calls visit(key, weight) for the weights that are not zero, up to the first that is not finite.
template <typename Visit>
Status ForEachWeight(const sparse::LocalStore& store, Visit visit) {
  Status status;
  store.ForEach([&](uint64_t key, std::span<const float> state) {
    const float w = state[0];
    if (w == 0 || !status.ok()) return;
    if (std::isfinite(w)) return visit(key, w);
    status =
        io::Invalid("weight of key " + std::to_string(key) + ": expected a finite number, found " +
                    io::NumberText(w) + ": the model is not saved");
  });
  return status;
}

Status SaveBinary(const sparse::LocalStore& store, const std::string& path, const ModelInfo& info) {
  io::StateFields fields;
  fields.Add("kind", "model");
  AddModelInfo(info, fields);
  ASSIGN_OR_RETURN(io::StateWriter writer, io::StateWriter::Create(path, fields, {}));
  RETURN_IF_ERROR(ForEachWeight(store, [&](uint64_t key, float w) { writer.Add(key, {&w, 1}); }));
  return writer.Finish();
}

Status SaveText(const sparse::LocalStore& store, const std::string& path, const ModelInfo& info) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
  OutputBuffer out(std::move(file));
  WriteTextModelHead(info, out);
  uint64_t weights = 0;
  RETURN_IF_ERROR(ForEachWeight(store, [&](uint64_t key, float w) {
    WriteTextModelEntry(key, w, out);
    ++weights;
  }));
  WriteTextModelEnd(weights, out);
  return out.Finish();
}

void AppendZeroFloats(uint64_t count, OutputBuffer& out) {
  static constexpr char kZeros[4096] = {};
  while (count > 0) {
    const uint64_t some = std::min<uint64_t>(count, sizeof kZeros / sizeof(float));
    out.Append({kZeros, some * sizeof(float)});
    count -= some;
  }
}

template <typename Number>
void AppendNumber(Number number, OutputBuffer& out) {
  out.Append({reinterpret_cast<const char*>(&number), sizeof number});
}

// An array of num_features weights, zeros included.
Status SaveDenseNpy(const sparse::LocalStore& store, OutputBuffer& out) {
  const uint64_t num_features = store.shape().num_features;
  out.Append(NpyHeader("'<f4'", num_features));
  uint64_t next = 0;
  RETURN_IF_ERROR(ForEachWeight(store, [&](uint64_t key, float w) {
    AppendZeroFloats(key - next, out);
    AppendNumber(w, out);
    next = key + 1;
  }));
  AppendZeroFloats(num_features - next, out);
  return out.Finish();
}

// An array of (key, weight). Its length comes first, so the weights are counted before.
Status SaveSparseNpy(const sparse::LocalStore& store, OutputBuffer& out) {
  uint64_t weights = 0;
  RETURN_IF_ERROR(ForEachWeight(store, [&](uint64_t, float) { ++weights; }));
  out.Append(NpyHeader("[('key', '<u8'), ('weight', '<f4')]", weights));
  RETURN_IF_ERROR(ForEachWeight(store, [&](uint64_t key, float w) {
    AppendNumber(key, out);
    AppendNumber(w, out);
  }));
  return out.Finish();
}

Status SaveNpy(const sparse::LocalStore& store, const std::string& path) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
  OutputBuffer out(std::move(file));
  return store.shape().num_features == 0 ? SaveSparseNpy(store, out) : SaveDenseNpy(store, out);
}

}  // namespace

Result<ModelFormat> ModelFormatFromName(std::string_view name) {
  if (name == "binary") return ModelFormat::kBinary;
  if (name == "text") return ModelFormat::kText;
  if (name == "npy") return ModelFormat::kNpy;
  return io::Invalid("model format: expected binary, text or npy, found '" + std::string(name) +
                     "'");
}

Status SaveModel(const sparse::LocalStore& store, const std::string& path, ModelFormat format,
                 uint64_t examples) {
  TRACE_SCOPE("save_model");
  const ModelInfo info = InfoOf(store, examples);
  switch (format) {
    case ModelFormat::kBinary:
      return SaveBinary(store, path, info);
    case ModelFormat::kText:
      return SaveText(store, path, info);
    case ModelFormat::kNpy:
      return SaveNpy(store, path);
  }
  return {};
}

Result<Model> LoadModel(const std::string& path) {
  TRACE_SCOPE("load_model");
  ASSIGN_OR_RETURN(const auto reader, ModelReader::Open(path));
  Result<Model> model = Model::Create(reader->info());
  if (!model.ok()) return io::Invalid(path + ": " + model.status().message());
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(block));
    if (!more) return model;
    for (size_t i = 0; i < block.size(); ++i) model->Set(block.keys[i], block.state(i)[0]);
  }
}

}  // namespace millrace::trainer
