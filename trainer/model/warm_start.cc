// WarmStart of model_file.h.
#include <array>
#include <cmath>

#include "sparse/update_options.h"
#include "trainer/model/model_file.h"
#include "trainer/model/model_reader.h"

namespace millrace::trainer {
namespace {

using io::Status;
using sparse::Rule;

constexpr size_t kMaxSlotFloats = 3;

// FTRL computes w from z and n, so a weight alone is no state. We take the state of a feature whose
// gradients are forgotten (n = 0) and whose z gives w by the rule
//   w = -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2),  sign(z) = -sign(w)
// that is
//   z = -w (beta / rate + l2) - sign(w) l1
// All other rules keep w itself, with the rest of the slot zero.
float FtrlZ(const sparse::FtrlParams& p, float w) {
  return -w * (p.beta * p.inverse_rate + p.l2) - std::copysign(p.l1, w);
}

std::array<float, kMaxSlotFloats> SlotFor(const sparse::UpdateOptions& options, float w) {
  if (w == 0) return {};
  if (options.rule != Rule::kFtrl) return {w, 0, 0};
  return {w, FtrlZ(sparse::FtrlParamsAt(options, 1), w), 0};
}

Status CheckFit(const std::string& path, const ModelInfo& info, const sparse::LocalStore& store) {
  if (info.num_features != store.shape().num_features) {
    return io::Invalid(path + ": expected a model of " + ShapeText(store.shape().num_features) +
                       ", found one of " + ShapeText(info.num_features));
  }
  const sparse::UpdateOptions& options = store.options();
  if (options.rule == Rule::kFtrl && options.ftrl_beta == 0 && options.l2 == 0) {
    return io::Invalid("a warm start with ftrl: expected ftrl_beta or l2 above 0, found both 0");
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

Status WarmStart(const std::string& path, sparse::LocalStore& store) {
  ASSIGN_OR_RETURN(const auto first_pass, ModelReader::Open(path));
  RETURN_IF_ERROR(CheckFit(path, first_pass->info(), store));
  // Once for the checks alone: nothing of a damaged file may reach the store.
  RETURN_IF_ERROR(ReadAll(*first_pass, [](const io::StateBlock&) { return Status(); }));
  ASSIGN_OR_RETURN(const auto second_pass, ModelReader::Open(path));
  return ReadAll(*second_pass, [&](const io::StateBlock& block) -> Status {
    for (size_t i = 0; i < block.size(); ++i) {
      const auto slot = SlotFor(store.options(), block.state(i)[0]);
      RETURN_IF_ERROR(store.Load(block.keys[i], {slot.data(), store.slot_floats()}));
    }
    return {};
  });
}

}  // namespace millrace::trainer
