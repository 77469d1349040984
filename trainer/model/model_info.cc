#include "trainer/model/model_info.h"

namespace millrace::trainer {

std::string ShapeText(uint64_t num_features) {
  return num_features == 0 ? "any 64-bit key" : "num_features = " + std::to_string(num_features);
}

void AddModelInfo(const ModelInfo& info, io::StateFields& fields) {
  fields.AddUint("num_features", info.num_features);
  fields.Add("rule", info.rule);
  fields.AddUint("steps", info.steps);
  fields.AddUint("examples", info.examples);
}

Result<ModelInfo> ModelInfoFrom(const io::StateFields& fields) {
  ModelInfo info;
  ASSIGN_OR_RETURN(info.num_features, fields.Uint("num_features"));
  ASSIGN_OR_RETURN(info.rule, fields.Text("rule"));
  ASSIGN_OR_RETURN(info.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(info.examples, fields.Uint("examples"));
  return info;
}

}  // namespace millrace::trainer
