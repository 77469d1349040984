// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/state/state_file.h"
#include "profiler/trace.h"
#include "sparse/centers.h"
#include "sparse/update_options.h"
#include "trainer/model/model_reader.h"
#include "trainer/model/model_text.h"
#include "trainer/model/output_buffer.h"

namespace millrace::trainer {
namespace {

// Whether the file of a model has another intercept, that of rows as they are.
std::vector<io::ValueCenter> ShiftCenters(const ModelInfo& info) {
  return info.factors.kind == sparse::ModelKind::kLr ? info.centers
                                                     : std::vector<io::ValueCenter>();
}

// The head of a numpy file, version 1.0, of an array with one or two dimensions: a magic, the
// length of a Python dictionary that describes the array, the dictionary padded to 64 bytes. The
// numbers follow. `descr` is a Python literal: "'<f4'".
std::string NpyHeader(std::string_view descr, uint64_t rows, const std::string& columns = "") {
  constexpr std::string_view kMagicAndVersion("\x93NUMPY\x01\x00", 8);
  constexpr size_t kPrefixBytes = kMagicAndVersion.size() + 2, kAlign = 64;
  std::string text = "{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': (" +
                     std::to_string(rows) + "," + columns + "), }";
  const size_t whole = (kPrefixBytes + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.resize(whole - kPrefixBytes - 1, ' ');
  text += '\n';
  std::string header(kMagicAndVersion);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// Calls visit(key, weight, factors) for the features of the source, up to the first number that is
// not finite.
template <typename Visit>
Status ForEachWeight(const ModelSource& source, Visit visit) {
  Status status;
  RETURN_IF_ERROR(source.for_each([&](uint64_t key, float w, std::span<const float> factors) {
    if (!status.ok()) return;
    const auto bad =
        std::find_if(factors.begin(), factors.end(), [](float v) { return !std::isfinite(v); });
    if (std::isfinite(w) && bad == factors.end()) return visit(key, w, factors);
    status = Invalid((std::isfinite(w) ? "factor" : "weight") + std::string(" of key ") +
                     io::KeyName(key) + ": expected a finite number, found " +
                     io::NumberText(std::isfinite(w) ? *bad : w) + ": the model is not saved");
  }));
  return status;
}

// The same of rows as they are: without centers. A model with factors stays that of centered rows,
// which differ from rows as they are in more than the intercept.
template <typename Visit>
Status ForEachUncentered(const ModelSource& source, Visit visit) {
  sparse::CenterSum shift(ShiftCenters(source.info));
  double intercept = 0;  // it is the last one
  RETURN_IF_ERROR(ForEachWeight(source, [&](uint64_t key, float w, std::span<const float> factors) {
    if (key == io::kInterceptKey) {
      intercept = w;
      return;
    }
    shift.Add(key, w);
    visit(key, w, factors);
  }));
  intercept -= shift.sum();
  if (intercept != 0 || !source.info.centers.empty()) {
    visit(io::kInterceptKey, intercept, std::span<const float>());
  }
  return {};
}

// Weight and factors; zeros where there are none.
void FillEntry(float weight, std::span<const float> factors, std::vector<float>& entry) {
  std::fill(entry.begin(), entry.end(), 0.0f);
  entry[0] = weight;
  std::copy(factors.begin(), factors.end(), entry.begin() + 1);
}

Status SaveBinary(const ModelSource& source, const std::string& path, io::AtPath at_path) {
  io::StateFields fields;
  fields.Add("kind", "model");
  AddModelInfo(source.info, fields);
  ASSIGN_OR_RETURN(
      io::StateWriter writer,
      io::StateWriter::Create(
          path, fields, {.floats_per_entry = 1 + source.info.factors.width(), .at_path = at_path}));
  std::vector<float> entry(1 + source.info.factors.width());
  RETURN_IF_ERROR(ForEachWeight(source, [&](uint64_t key, float w, std::span<const float> factors) {
    FillEntry(w, factors, entry);
    writer.Add(key, entry);
  }));
  return writer.Finish();
}

Status SaveText(const ModelSource& source, const std::string& path, io::AtPath at_path) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, at_path));
  OutputBuffer out(std::move(file));
  WriteTextModelHead(source.info, out);
  uint64_t weights = 0;
  RETURN_IF_ERROR(
      ForEachUncentered(source, [&](uint64_t key, double w, std::span<const float> factors) {
        WriteTextModelEntry(key, w, factors, out);
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

void AppendFloats(std::span<const float> floats, OutputBuffer& out) {
  out.Append({reinterpret_cast<const char*>(floats.data()), floats.size_bytes()});
}

// An array of num_features weights, zeros included, and the intercept. With factors it has one row
// a feature: the weight and its factors.
Status SaveDenseNpy(const ModelSource& source, OutputBuffer& out) {
  const uint64_t num_features = source.info.num_features;
  const size_t columns = 1 + source.info.factors.width();
  out.Append(NpyHeader("'<f4'", num_features + 1, columns > 1 ? std::to_string(columns) : ""));
  uint64_t next = 0;
  std::vector<float> entry(columns);
  RETURN_IF_ERROR(
      ForEachUncentered(source, [&](uint64_t key, double w, std::span<const float> factors) {
        const uint64_t position = key == io::kInterceptKey ? num_features : key;
        AppendZeroFloats((position - next) * columns, out);
        FillEntry(static_cast<float>(w), factors, entry);
        AppendFloats(entry, out);
        next = position + 1;
      }));
  AppendZeroFloats((num_features + 1 - next) * columns, out);
  return out.Finish();
}

// An array of (key, weight) or (key, weight, factors). Its length comes first, so the weights are
// counted before.
Status SaveSparseNpy(const ModelSource& source, OutputBuffer& out) {
  uint64_t weights = 0;
  RETURN_IF_ERROR(
      ForEachUncentered(source, [&](uint64_t, double, std::span<const float>) { ++weights; }));
  const size_t width = source.info.factors.width();
  const std::string factors_type =
      width == 0 ? "" : ", ('factors', '<f4', (" + std::to_string(width) + ",))";
  out.Append(NpyHeader("[('key', '<u8'), ('weight', '<f4')" + factors_type + "]", weights));
  std::vector<float> entry(1 + width);
  RETURN_IF_ERROR(
      ForEachUncentered(source, [&](uint64_t key, double w, std::span<const float> factors) {
        AppendNumber(key, out);
        FillEntry(static_cast<float>(w), factors, entry);
        AppendFloats(entry, out);
      }));
  return out.Finish();
}

Status SaveNpy(const ModelSource& source, const std::string& path, io::AtPath at_path) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, at_path));
  OutputBuffer out(std::move(file));
  return source.info.num_features == 0 ? SaveSparseNpy(source, out) : SaveDenseNpy(source, out);
}

using sparse::Rule;

Status CheckKind(const std::string& path, const ModelInfo& info, const sparse::ModelShape& shape,
                 const sparse::UpdateOptions& options) {
  if (info.factors.kind == sparse::ModelKind::kLr) return {};
  if (!sparse::SameKind(info.factors, shape.factors)) {
    return Invalid(path + ": expected a model of kind " + sparse::KindText(shape.factors) +
                   (shape.factors.kind == sparse::ModelKind::kLr ? "" : " (or an lr)") +
                   ", found " + sparse::KindText(info.factors));
  }
  if (!options.normalize && info.centers.empty()) return {};
  if (!options.normalize) {
    return Invalid(path + ": expected a model without centered values, found " +
                   std::to_string(info.centers.size()) + " centers: continue takes it with them");
  }
  return Invalid(path +
                 ": the factors of a model file belong to values as they are, and this run "
                 "normalises them: expected normalize = off, or the earlier run in continue");
}

Status CheckFit(const std::string& path, const ModelInfo& info, const sparse::ModelShape& shape,
                const sparse::UpdateOptions& options, bool may_grow) {
  const bool grows = may_grow && info.num_features > 0 && info.num_features < shape.num_features;
  if (info.num_features != shape.num_features && !grows) {
    return Invalid(path + ": expected a model of " + ShapeText(shape.num_features) +
                   ", found one of " + ShapeText(info.num_features));
  }
  RETURN_IF_ERROR(CheckKind(path, info, shape, options));
  if (!shape.intercept && !info.centers.empty()) {
    return Invalid(path + ": expected a model without intercept, found one of centered values");
  }
  if (options.rule != Rule::kFtrl || options.ftrl_beta > 0) return {};
  if (options.l2 == 0) {
    return Invalid("a warm start with ftrl: expected ftrl_beta or l2 above 0, found both 0");
  }
  if (!shape.intercept) return {};
  return Invalid(
      "a warm start with ftrl: expected ftrl_beta above 0 for the intercept, which has no l2, "
      "found 0");
}

Status CheckIntercept(const std::string& path, const sparse::ModelShape& shape,
                      const io::StateBlock& block) {
  if (shape.intercept || !io::HasIntercept(block.keys) || block.state(block.size() - 1)[0] == 0) {
    return {};
  }
  return Invalid(path + ": expected a model without intercept, found one with the intercept " +
                 io::NumberText(block.state(block.size() - 1)[0]));
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

Result<ModelFormat> ModelFormatFromName(std::string_view name) {
  if (name == "binary") return ModelFormat::kBinary;
  if (name == "text") return ModelFormat::kText;
  if (name == "npy") return ModelFormat::kNpy;
  return Invalid("model format: expected binary, text or npy, found '" + std::string(name) + "'");
}

ModelSource SourceOf(const sparse::LocalStore& store, uint64_t examples) {
  return {.info = {.num_features = store.shape().num_features,
                   .rule = sparse::RuleName(store.options().rule),
                   .factors = store.shape().factors,
                   .steps = store.steps(),
                   .examples = examples,
                   .centers = store.options().centers},
          .for_each = [&store](const ModelSource::Visit& visit) {
            const size_t width = store.factor_width();
            store.ForEach([&](uint64_t key, std::span<const float> state) {
              const std::span<const float> factors = state.subspan(1, width);
              const bool has_factors =
                  std::any_of(factors.begin(), factors.end(), [](float v) { return v != 0; });
              if (state[0] == 0 && !has_factors) return;
              visit(key, state[0], has_factors ? factors : std::span<const float>());
            });
            return Status();
          }};
}

Status SaveModel(const ModelSource& source, const std::string& path, ModelFormat format,
                 io::AtPath at_path) {
  TRACE_SCOPE("save_model", profiler::Cat::kCheckpoint);
  switch (format) {
    case ModelFormat::kBinary:
      return SaveBinary(source, path, at_path);
    case ModelFormat::kText:
      return SaveText(source, path, at_path);
    case ModelFormat::kNpy:
      return SaveNpy(source, path, at_path);
  }
  return {};
}

Status SaveModel(const sparse::LocalStore& store, const std::string& path, ModelFormat format,
                 uint64_t examples) {
  return SaveModel(SourceOf(store, examples), path, format);
}

Result<Model> LoadModel(const std::string& path) {
  TRACE_SCOPE("load_model", profiler::Cat::kCheckpoint);
  ASSIGN_OR_RETURN(const auto reader, ModelReader::Open(path));
  Result<Model> model = Model::Create(reader->info());
  if (!model.ok()) return Invalid(path + ": " + model.status().message());
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(block));
    if (!more) return model;
    for (size_t i = 0; i < block.size(); ++i) {
      model->Set(block.keys[i], block.state(i)[0],
                 block.state(i).subspan(1, model->factor_width()));
    }
  }
}

Status ReadModelFor(const std::string& path, const sparse::ModelShape& shape,
                    const sparse::UpdateOptions& options, bool may_grow, const TakeWeights& take) {
  ASSIGN_OR_RETURN(const auto first_pass, ModelReader::Open(path));
  RETURN_IF_ERROR(CheckFit(path, first_pass->info(), shape, options, may_grow));
  // Once for the checks alone: nothing of a corrupt file may be taken.
  RETURN_IF_ERROR(ReadAll(*first_pass, [&](const io::StateBlock& block) {
    return CheckIntercept(path, shape, block);
  }));
  ASSIGN_OR_RETURN(const auto second_pass, ModelReader::Open(path));
  PodVector<float> weights, factors;
  const size_t width = second_pass->info().factors.width();
  sparse::CenterSum ours(options.centers), theirs(second_pass->info().centers);
  const auto shift = [&] { return ours.sum() - theirs.sum(); };
  bool has_intercept = false;  // it is the last one
  RETURN_IF_ERROR(ReadAll(*second_pass, [&](const io::StateBlock& block) -> Status {
    weights.resize(block.size());
    factors.resize(block.size() * width);
    for (size_t i = 0; i < block.size(); ++i) {
      weights[i] = block.state(i)[0];
      std::copy_n(block.state(i).data() + 1, width, factors.data() + i * width);
      ours.Add(block.keys[i], weights[i]);
      theirs.Add(block.keys[i], weights[i]);
    }
    has_intercept = io::HasIntercept(block.keys);
    if (has_intercept) weights.back() = static_cast<float>(double{weights.back()} + shift());
    return take(block.keys, weights, factors);
  }));
  if (has_intercept || shift() == 0) return {};
  const auto intercept = static_cast<float>(shift());
  return take({&io::kInterceptKey, 1}, {&intercept, 1}, {});
}

Status WarmStart(const std::string& path, sparse::LocalStore& store, bool may_grow) {
  return ReadModelFor(
      path, store.shape(), store.options(), may_grow,
      [&](std::span<const uint64_t> keys, std::span<const float> weights,
          std::span<const float> factors) -> Status {
        const size_t width = factors.size() / keys.size();
        for (size_t i = 0; i < keys.size(); ++i) {
          const bool is_intercept = keys[i] == io::kInterceptKey;
          RETURN_IF_ERROR(store.LoadWeight(keys[i], weights[i],
                                           factors.subspan(i * width, is_intercept ? 0 : width)));
        }
        return {};
      });
}

}  // namespace millrace::trainer
