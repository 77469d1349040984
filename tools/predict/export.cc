// SPDX-License-Identifier: Apache-2.0
#include "tools/predict/export.h"

#include <algorithm>
#include <memory>
#include <span>

#include "io/state/state_file.h"
#include "sparse/score/serving_writer.h"
#include "trainer/model/model_reader.h"

namespace millrace::predict {
namespace {

// Calls visit(key, numbers) for each feature with a number that is not zero, and for the intercept.
template <typename Visit>
Status ForEachFeature(trainer::ModelReader& reader, const std::function<bool()>& should_stop,
                      const Visit& visit) {
  const size_t numbers = 1 + reader.info().factors.width();
  io::StateBlock block;
  while (true) {
    if (should_stop && should_stop()) return Cancelled("interrupted");
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) return {};
    for (size_t i = 0; i < block.size(); ++i) {
      const std::span<const float> state = block.state(i).first(numbers);
      if (std::any_of(state.begin(), state.end(), [](float v) { return v != 0; })) {
        RETURN_IF_ERROR(visit(block.keys[i], state));
      }
    }
  }
}

// A hash table reads keys as well, so it must be much smaller to be faster.
score::TableShape TableFor(const ExportOptions& options, const trainer::ModelInfo& info,
                           uint64_t features) {
  constexpr uint64_t kMuchSmaller = 2;
  const auto numbers = static_cast<uint32_t>(1 + info.factors.width());
  const score::TableShape hash = score::HashShape(features, numbers, options.weights);
  score::TableShape dense = score::DenseShape(info.num_features, numbers, options.weights);
  const bool use_hash =
      options.layout
          ? *options.layout == score::Layout::kHash
          : info.num_features == 0 || hash.table_bytes() <= dense.table_bytes() / kMuchSmaller;
  return use_hash ? hash : dense;
}

}  // namespace

Result<ExportSummary> ExportModel(const ExportOptions& options) {
  ExportSummary summary;
  ASSIGN_OR_RETURN(const auto first_pass, trainer::ModelReader::Open(options.model));
  const trainer::ModelInfo info = first_pass->info();
  if (info.num_features == 0 && options.layout == score::Layout::kDense) {
    return Invalid("--layout=dense: the model has any 64-bit key, which needs a hash table");
  }
  RETURN_IF_ERROR(ForEachFeature(*first_pass, options.should_stop,
                                 [&](uint64_t key, std::span<const float>) -> Status {
                                   summary.features += key != io::kInterceptKey;
                                   return {};
                                 }));
  summary.table = TableFor(options, info, summary.features);
  io::StateFields fields;
  trainer::AddModelInfo(info, fields);
  ASSIGN_OR_RETURN(score::ServingWriter writer,
                   score::ServingWriter::Create(options.out, summary.table, fields));
  ASSIGN_OR_RETURN(const auto second_pass, trainer::ModelReader::Open(options.model));
  RETURN_IF_ERROR(ForEachFeature(
      *second_pass, options.should_stop,
      [&](uint64_t key, std::span<const float> numbers) { return writer.Add(key, numbers); }));
  RETURN_IF_ERROR(writer.Finish());
  summary.bytes = writer.file_bytes();
  return summary;
}

}  // namespace millrace::predict
