// SPDX-License-Identifier: Apache-2.0
// _core.FeatureSpec: rows of named fields to the rows of a matrix.
#include "tools/python/bind.h"

namespace millrace::python {
namespace {

// `plan` is null until the spec is fitted.
struct BoundSpec {
  io::FeatureSpec spec;
  std::shared_ptr<const io::EncoderPlan> plan;
};

BoundSpec Bound(io::FeatureSpec spec) {
  BoundSpec bound;
  if (spec.IsFitted()) bound.plan = ValueOf(io::EncoderPlan::Make(spec));
  bound.spec = std::move(spec);
  return bound;
}

// (indptr, indices, data or None, labels, weights or None)
py::tuple Encode(const BoundSpec& bound, const py::list& columns, size_t rows, bool labels) {
  if (!bound.plan) throw py::value_error("the feature spec needs a first pass: call fit");
  const FrameView frame = FrameOf(columns);
  Interrupts interrupts;
  auto encoded = [&] {
    const py::gil_scoped_release release;
    return EncodeFrame(bound.plan, frame.columns, rows,
                       labels ? io::Labels::kRequired : io::Labels::kOptional,
                       [&] { return interrupts.Check(); });
  }();
  RaiseIf(encoded.status());
  return py::make_tuple(
      ArrayOf(std::move(encoded->row_begin)), ArrayOf(std::move(encoded->columns)),
      ArrayOrNone(std::move(encoded->values)), ArrayOf(std::move(encoded->labels)),
      ArrayOrNone(std::move(encoded->weights)));
}

BoundSpec Fit(const BoundSpec& bound, const py::list& columns, size_t rows) {
  const FrameView frame = FrameOf(columns);
  Interrupts interrupts;
  auto fitted = [&] {
    const py::gil_scoped_release release;
    return FitFrame(bound.spec, frame.columns, rows, [&] { return interrupts.Check(); });
  }();
  return Bound(ValueOf(std::move(fitted)));
}

}  // namespace

void BindFeatures(py::module_& module) {
  py::class_<BoundSpec>(module, "FeatureSpec")
      .def_static(
          "parse",
          [](const std::string& json, const std::string& source) {
            return Bound(ValueOf(io::ParseFeatureSpec(json, source)));
          },
          py::arg("json"), py::arg("source"))
      .def_static("load",
                  [](const std::string& path) { return Bound(ValueOf(io::LoadFeatureSpec(path))); })
      .def("encode", &Encode, py::arg("columns"), py::arg("rows"), py::arg("labels"))
      .def("fit", &Fit, py::arg("columns"), py::arg("rows"))
      .def("to_json", [](const BoundSpec& b) { return b.spec.ToJson(); })
      .def_property_readonly("columns", [](const BoundSpec& b) { return b.spec.Columns(); })
      .def_property_readonly("label_column", [](const BoundSpec& b) { return b.spec.label.column; })
      .def_property_readonly("weight_column",
                             [](const BoundSpec& b) { return b.spec.weight_column; })
      .def_property_readonly("is_fitted", [](const BoundSpec& b) { return b.spec.IsFitted(); })
      .def_property_readonly("num_features",
                             [](const BoundSpec& b) { return b.spec.num_features(); });
}

}  // namespace millrace::python
