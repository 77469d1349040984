// SPDX-License-Identifier: Apache-2.0
#include "tools/predict/commands.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/state/state_fields.h"
#include "io/text/criteo_names.h"
#include "sparse/centers.h"
#include "trainer/model/output_buffer.h"

namespace millrace::predict {
namespace {

using Names = std::unordered_map<uint64_t, std::string>;

// Names from rows, through the feature spec of the model.
Result<Names> RowNamesOf(const Names& keys, const io::InputOptions& input) {
  KeyNames found;
  for (const auto& [key, unused] : keys) found[key];
  RETURN_IF_ERROR(FillNames(input, found));
  Names names;
  for (const auto& [key, all] : found) {
    std::string& name = names[key];
    for (const std::string& one : all) name += (name.empty() ? "" : " | ") + one;
    if (all.empty()) name = "?";
  }
  return names;
}

struct Weight {
  uint64_t key;
  float w;
};

// Equal magnitudes are ordered by key.
bool IsLarger(const Weight& a, const Weight& b) {
  const float x = std::abs(a.w), y = std::abs(b.w);
  return x != y ? x > y : a.key < b.key;
}

// Those of rows as they are. The top of the heap is the smallest of the `count` largest weights so
// far.
std::vector<Weight> Largest(const trainer::Model& model, size_t count) {
  std::vector<Weight> heap;
  const auto add = [&](Weight weight) {
    if (heap.size() == count && !IsLarger(weight, heap.front())) return;
    if (heap.size() == count) {
      std::pop_heap(heap.begin(), heap.end(), IsLarger);
      heap.pop_back();
    }
    heap.push_back(weight);
    std::push_heap(heap.begin(), heap.end(), IsLarger);
  };
  sparse::CenterSum shift(model.info().centers);
  model.ForEach([&](uint64_t key, float w) {
    shift.Add(key, w);
    if (key != io::kInterceptKey) add({key, w});
  });
  const double intercept = double{model.Weight(io::kInterceptKey)} - shift.sum();
  if (intercept != 0) add({io::kInterceptKey, static_cast<float>(intercept)});
  std::sort_heap(heap.begin(), heap.end(), IsLarger);
  return heap;
}

Result<Names> NamesOf(const std::vector<Weight>& weights, const trainer::Model& model,
                      const TopOptions& options) {
  Names names;
  const std::string& vocabulary = options.vocabulary;
  if (vocabulary.empty() && !options.input) return names;
  for (const Weight& weight : weights) {
    if (weight.key != io::kInterceptKey) names[weight.key] = "";
  }
  if (options.input) {
    ASSIGN_OR_RETURN(names, RowNamesOf(names, *options.input));
    names[io::kInterceptKey] = io::KeyName(io::kInterceptKey);
    return names;
  }
  ASSIGN_OR_RETURN(const uint64_t num_features, io::FillCriteoNames(vocabulary, names));
  names[io::kInterceptKey] = io::KeyName(io::kInterceptKey);
  if (num_features == model.info().num_features) return names;
  return Invalid(vocabulary + ": expected a vocabulary of " +
                 trainer::ShapeText(model.info().num_features) + " like the model, found " +
                 trainer::ShapeText(num_features));
}

}  // namespace

Status WriteTopWeights(const trainer::Model& model, const TopOptions& options) {
  const std::vector<Weight> weights = Largest(model, options.count);
  ASSIGN_OR_RETURN(const Names names, NamesOf(weights, model, options));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  for (const Weight& weight : weights) {
    out.Append(io::KeyName(weight.key) + '\t' + io::NumberText(weight.w));
    if (!names.empty()) out.Append('\t' + names.at(weight.key));
    out.Append("\n");
  }
  return out.Finish();
}

}  // namespace millrace::predict
