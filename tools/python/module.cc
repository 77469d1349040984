// SPDX-License-Identifier: Apache-2.0
// The module millrace._core: its entry, and what bind.h promises.
#include <cmath>
#include <cstring>
#include <memory>

#include "profiler/clock.h"
#include "tools/predict/export.h"
#include "tools/python/bind.h"

namespace millrace::python {
namespace {

constexpr double kCheckSeconds = 0.1;

std::string TypeName(py::handle object) {
  return py::str(py::type::handle_of(object).attr("__name__")).cast<std::string>();
}

io::FieldValue NewValue(io::FieldValue::Kind kind) {
  io::FieldValue value = {};
  value.kind = kind;
  value.weight = 1;
  return value;
}

// Reads the cells of one column.
class CellReader {
 public:
  CellReader(std::string column, FrameCells& cells, py::list& owners)
      : column_(std::move(column)), cells_(cells), owners_(owners) {
    cells_.row_begin.push_back(0);
  }

  void AddRow(py::handle cell) {
    const bool is_list = py::isinstance<py::list>(cell) || py::isinstance<py::tuple>(cell) ||
                         py::isinstance<py::array>(cell);
    if (is_list) {
      for (const py::handle value : cell) Add(value, /*owned=*/py::isinstance<py::array>(cell));
    } else {
      Add(cell, false);
    }
    cells_.row_begin.push_back(cells_.values.size());
  }

 private:
  void AddText(const char* text, size_t size) {
    if (size >> 32 != 0) Fail("a text below 4 GB", "a longer one");
    io::FieldValue value = NewValue(io::FieldValue::Kind::kText);
    value.text = text;
    value.size = static_cast<uint32_t>(size);
    cells_.values.push_back(value);
  }

  // `is_new`: nobody else may own the object, so it is kept.
  void Add(py::handle cell, bool is_new) {
    PyObject* object = cell.ptr();
    if (object == Py_None) return;
    if (PyUnicode_Check(object)) {
      if (is_new) owners_.append(cell);
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(object, &size);
      if (!text) throw py::error_already_set();
      AddText(text, static_cast<size_t>(size));
    } else if (PyBytes_Check(object)) {
      if (is_new) owners_.append(cell);
      AddText(PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object)));
    } else if (PyBool_Check(object)) {
      const char* text = object == Py_True ? "true" : "false";
      AddText(text, std::strlen(text));
    } else if (PyFloat_Check(object)) {
      const double number = PyFloat_AS_DOUBLE(object);
      if (std::isnan(number)) return;
      io::FieldValue value = NewValue(io::FieldValue::Kind::kDouble);
      value.number = number;
      cells_.values.push_back(value);
    } else if (PyIndex_Check(object)) {
      const auto integer = py::reinterpret_steal<py::object>(PyNumber_Index(object));
      if (!integer) throw py::error_already_set();
      io::FieldValue value = NewValue(io::FieldValue::Kind::kInt);
      value.integer = PyLong_AsLongLong(integer.ptr());
      if (value.integer == -1 && PyErr_Occurred()) throw py::error_already_set();
      cells_.values.push_back(value);
    } else if (TypeName(cell) == "float32") {
      io::FieldValue value = NewValue(io::FieldValue::Kind::kFloat);
      value.number = PyFloat_AsDouble(object);
      if (!std::isnan(value.number)) cells_.values.push_back(value);
    } else {
      Fail("a text, a number, None or a list of these", TypeName(cell));
    }
  }

  [[noreturn]] void Fail(const std::string& expected, const std::string& found) const {
    throw py::type_error("column '" + column_ + "', row " +
                         std::to_string(cells_.row_begin.size() - 1) + ": expected " + expected +
                         ", found " + found);
  }

  std::string column_;
  FrameCells& cells_;
  py::list& owners_;
};

template <typename T>
bool Is(const py::array& array) {
  return py::isinstance<py::array_t<T, py::array::c_style>>(array);
}

py::dict ExportModel(const std::string& model, const std::string& out, const std::string& weights,
                     const std::string& layout) {
  predict::ExportOptions options = {.model = model, .out = out};
  options.weights = ValueOf(score::WeightsTypeFromName(weights));
  if (layout == "hash" || layout == "dense") {
    options.layout = layout == "hash" ? score::Layout::kHash : score::Layout::kDense;
  } else if (layout != "auto") {
    throw py::value_error("layout: expected auto, dense or hash, found '" + layout + "'");
  }
  Interrupts interrupts;
  options.should_stop = [&] { return !interrupts.Check().ok(); };
  const auto summary = [&] {
    const py::gil_scoped_release release;
    return predict::ExportModel(options);
  }();
  RaiseIf(summary.status());
  py::dict result;
  result["features"] = summary->features;
  result["bytes"] = summary->bytes;
  result["layout"] = score::LayoutName(summary->table.layout);
  return result;
}

}  // namespace

void Raise(const Status& status) {
  if (PyErr_Occurred()) throw py::error_already_set();
  PyObject* type = PyExc_RuntimeError;
  switch (status.code()) {
    case Code::kInvalid:
    case Code::kCorrupt:
      type = PyExc_ValueError;
      break;
    case Code::kNotFound:
      type = PyExc_FileNotFoundError;
      break;
    case Code::kIo:
      type = PyExc_OSError;
      break;
    case Code::kCancelled:
      type = PyExc_KeyboardInterrupt;
      break;
    default:
      break;
  }
  PyErr_SetString(type, status.message().c_str());
  throw py::error_already_set();
}

Status Interrupts::Check(uint64_t rows, double mean_loss) {
  const double now_s = NowSeconds();
  if (now_s < next_s_) return {};
  next_s_ = now_s + kCheckSeconds;
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) return Cancelled("interrupted");
  if (progress_.is_none()) return {};
  try {
    progress_(rows, mean_loss);
  } catch (py::error_already_set& error) {
    error.restore();
    return Cancelled("interrupted by the progress function");
  }
  return {};
}

FrameView FrameOf(const py::list& columns) {
  FrameView view;
  for (const py::handle item : columns) {
    const auto pair = item.cast<py::tuple>();
    FrameColumn& column = view.columns.emplace_back();
    column.name = pair[0].cast<std::string>();
    const auto array = pair[1].cast<py::array>();
    view.owners.append(array);
    const char* name = column.name.c_str();
    if (Is<int64_t>(array)) {
      column.values = ViewOf<int64_t>(array, name);
    } else if (Is<float>(array)) {
      column.values = ViewOf<float>(array, name);
    } else if (Is<double>(array)) {
      column.values = ViewOf<double>(array, name);
    } else if (array.dtype().kind() == 'O') {
      FrameCells& cells = column.values.emplace<FrameCells>();
      CellReader reader(column.name, cells, view.owners);
      for (const py::handle cell : array) reader.AddRow(cell);
    } else {
      throw py::type_error("column '" + column.name +
                           "': expected numbers or texts, or lists of these, found " +
                           py::str(array.dtype()).cast<std::string>());
    }
  }
  return view;
}

}  // namespace millrace::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of millrace: use the package itself.";
  module.attr("__version__") = MILLRACE_VERSION;
  millrace::python::BindLearner(module);
  millrace::python::BindFeatures(module);
  millrace::python::BindRecords(module);
  millrace::python::BindScorer(module);
  module.def("export_model", &millrace::python::ExportModel, pybind11::arg("model"),
             pybind11::arg("out"), pybind11::arg("weights") = "f32",
             pybind11::arg("layout") = "auto");
}
