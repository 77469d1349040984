// SPDX-License-Identifier: Apache-2.0
// What the bindings share: errors, interrupts and arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "tools/python/frame_rows.h"

namespace millrace::python {

namespace py = pybind11;

// Raises the error that Python has already (an interrupt), or else one of the type that belongs to
// the code: ValueError, FileNotFoundError, OSError or RuntimeError. The GIL is held.
[[noreturn]] void Raise(const Status& status);
inline void RaiseIf(const Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T ValueOf(Result<T> result) {
  RaiseIf(result.status());
  return std::move(*result);
}

// Looks for signals (Ctrl-C) some ten times a second, and calls `progress` then. For a thread that
// does not hold the GIL. Not thread-safe.
class Interrupts {
 public:
  // `progress` is None or a function of (rows, mean_loss).
  explicit Interrupts(py::object progress = py::none()) : progress_(std::move(progress)) {}
  // An error if Python has one now, which Raise raises.
  Status Check(uint64_t rows = 0, double mean_loss = 0);

 private:
  py::object progress_;
  double next_s_ = 0;
};

// A view of an array of one dimension. TypeError if it has another type or is not contiguous: no
// copy is made.
template <typename T>
std::span<const T> ViewOf(const py::array& array, const char* name) {
  if (!py::isinstance<py::array_t<T, py::array::c_style>>(array) || array.ndim() != 1) {
    throw py::type_error(std::string(name) + ": expected a contiguous array of one dimension of " +
                         py::str(py::dtype::of<T>()).cast<std::string>() + ", found " +
                         std::to_string(array.ndim()) + " dimensions of " +
                         py::str(array.dtype()).cast<std::string>());
  }
  return {static_cast<const T*>(array.data()), static_cast<size_t>(array.size())};
}

// An array that owns the vector: nothing is copied.
template <typename Vector>
py::array ArrayOf(Vector&& vector) {
  using Owned = std::decay_t<Vector>;
  auto owned = std::make_unique<Owned>(std::forward<Vector>(vector));
  auto* data = owned->data();
  const auto size = static_cast<py::ssize_t>(owned->size());
  const py::capsule owner(owned.get(),
                          [](void* p) { std::unique_ptr<Owned>(static_cast<Owned*>(p)); });
  static_cast<void>(owned.release());
  return py::array_t<typename Owned::value_type>(size, data, owner);
}
template <typename Vector>
py::object ArrayOrNone(Vector&& vector) {
  if (vector.empty()) return py::none();
  return ArrayOf(std::forward<Vector>(vector));
}

// The columns of a frame: a list of (name, array), where an array has numbers, or Python objects:
// texts, numbers, None, and lists of these. The columns are valid as long as `owners`.
struct FrameView {
  std::vector<FrameColumn> columns;
  py::list owners;
};
FrameView FrameOf(const py::list& columns);

void BindFeatures(py::module_& module);
void BindLearner(py::module_& module);
void BindRecords(py::module_& module);
void BindScorer(py::module_& module);

}  // namespace millrace::python
