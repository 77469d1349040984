// SPDX-License-Identifier: Apache-2.0
// _core.Scorer: libmillrace-score for Python. Calls run without the GIL, any number at a time.
#include <algorithm>
#include <memory>
#include <string_view>

#include "millrace/score.h"
#include "tools/python/bind.h"

namespace millrace::python {
namespace {

Status StatusOf(int code, const millrace_score_error& error) {
  switch (code) {
    case MILLRACE_SCORE_OK:
      return {};
    case MILLRACE_SCORE_INVALID:
      return Invalid(error.message);
    case MILLRACE_SCORE_NOT_FOUND:
      return NotFound(error.message);
    case MILLRACE_SCORE_IO:
      return {Code::kIo, error.message};
    case MILLRACE_SCORE_CORRUPT:
      return Corrupt(error.message);
    default:
      return Failed(error.message);
  }
}

// Calls a function of the library without the GIL, and raises its error.
template <typename Call>
void Checked(const Call& call) {
  millrace_score_error error = {};
  const int code = [&] {
    const py::gil_scoped_release release;
    return call(&error);
  }();
  RaiseIf(StatusOf(code, error));
}

// Rows of keys, and the arrays that have them.
struct KeyRows {
  std::span<const uint64_t> row_begin, keys;
  std::span<const float> values;  // empty: ones

  millrace_keys View() const {
    return {.rows = row_begin.size() - 1,
            .row_begin = row_begin.data(),
            .keys = keys.data(),
            .values = values.empty() ? nullptr : values.data(),
            .fields = nullptr};
  }
};

// (row_begin, keys, values or None)
using KeyArrays = std::tuple<py::array, py::array, std::optional<py::array>>;

KeyRows RowsOf(const KeyArrays& arrays) {
  const auto& [row_begin, keys, values] = arrays;
  KeyRows rows = {.row_begin = ViewOf<uint64_t>(row_begin, "indptr"),
                  .keys = ViewOf<uint64_t>(keys, "indices"),
                  .values = {}};
  if (values) rows.values = ViewOf<float>(*values, "data");
  bool ascending = !rows.row_begin.empty() && rows.row_begin.back() <= rows.keys.size();
  for (size_t r = 1; r < rows.row_begin.size(); ++r) {
    ascending &= rows.row_begin[r - 1] <= rows.row_begin[r];
  }
  if (!ascending || (values && rows.values.size() != rows.keys.size())) {
    throw py::value_error("expected the arrays of a CSR matrix");
  }
  return rows;
}

// The fields of a frame's rows. Names and texts are views of the frame.
class FieldRows {
 public:
  FieldRows(const FrameView& frame, size_t rows) {
    row_begin_.push_back(0);
    io::FieldRow row;
    for (size_t r = 0; r < rows; ++r) {
      for (const FrameColumn& column : frame.columns) {
        row.Clear(1);
        row.Begin(0);
        column.Add(r, row);
        for (const io::FieldValue& value : row.column(0)) Add(column.name, value);
      }
      row_begin_.push_back(fields_.size());
    }
  }
  millrace_rows View() const {
    return {
        .rows = row_begin_.size() - 1, .row_begin = row_begin_.data(), .fields = fields_.data()};
  }

 private:
  void Add(const std::string& name, const io::FieldValue& value) {
    millrace_field field = {};
    field.name = name.data();
    field.name_size = name.size();
    switch (value.kind) {
      case io::FieldValue::Kind::kText:
        field.kind = MILLRACE_SCORE_TEXT;
        field.value.text = {value.text, value.size};
        break;
      case io::FieldValue::Kind::kInt:
        field.kind = MILLRACE_SCORE_INT;
        field.value.integer = value.integer;
        break;
      case io::FieldValue::Kind::kFloat:
      case io::FieldValue::Kind::kDouble:
        field.kind = value.kind == io::FieldValue::Kind::kFloat ? MILLRACE_SCORE_FLOAT
                                                                : MILLRACE_SCORE_DOUBLE;
        field.value.number = value.number;
        break;
    }
    fields_.push_back(field);
  }

  std::vector<uint64_t> row_begin_;
  std::vector<millrace_field> fields_;
};

void CheckRows(const FrameView& frame, size_t rows) {
  for (const FrameColumn& column : frame.columns) {
    if (column.rows() == rows) continue;
    throw py::value_error("column '" + column.name + "': expected " + std::to_string(rows) +
                          " rows, found " + std::to_string(column.rows()));
  }
}

FieldRows FieldsOf(const FrameView& frame, size_t rows) {
  CheckRows(frame, rows);
  const py::gil_scoped_release release;
  return FieldRows(frame, rows);
}

class Scorer {
 public:
  Scorer(const std::string& path, uint32_t flags) {
    Checked([&](auto* error) { return millrace_score_open(path.c_str(), flags, &scorer_, error); });
  }
  ~Scorer() { millrace_score_close(scorer_); }
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  void Swap(const std::string& path, uint32_t flags) {
    Checked([&](auto* error) { return millrace_score_swap(scorer_, path.c_str(), flags, error); });
  }

  py::array ScoreKeys(const KeyArrays& arrays, int output) {
    const millrace_keys keys = RowsOf(arrays).View();
    std::vector<double> scores(keys.rows);
    Checked([&](auto* error) {
      return millrace_score_keys(scorer_, &keys, output, scores.data(), nullptr, error);
    });
    return ArrayOf(std::move(scores));
  }
  py::array ScoreFrame(const py::list& columns, size_t count, int output) {
    const FrameView frame = FrameOf(columns);
    const FieldRows fields = FieldsOf(frame, count);
    const millrace_rows rows = fields.View();
    std::vector<double> scores(count);
    Checked([&](auto* error) {
      return millrace_score_rows(scorer_, &rows, output, scores.data(), nullptr, error);
    });
    return ArrayOf(std::move(scores));
  }
  py::array ScoreJson(std::string_view lines, int output) {
    std::vector<double> scores(Capacity(lines));
    size_t rows = 0;
    Checked([&](auto* error) {
      return millrace_score_json(scorer_, lines.data(), lines.size(), output, scores.data(),
                                 scores.size(), &rows, nullptr, error);
    });
    scores.resize(rows);
    return ArrayOf(std::move(scores));
  }

  py::array KeyCandidates(const KeyArrays& context, const KeyArrays& candidates, int output) {
    const millrace_keys one = RowsOf(context).View(), many = RowsOf(candidates).View();
    std::vector<double> scores(many.rows);
    Checked([&](auto* error) {
      return millrace_score_key_candidates(scorer_, &one, &many, output, scores.data(), nullptr,
                                           error);
    });
    return ArrayOf(std::move(scores));
  }
  py::array FrameCandidates(const py::list& context, const py::list& candidates, size_t count,
                            int output) {
    const FrameView context_frame = FrameOf(context), frame = FrameOf(candidates);
    const FieldRows context_fields = FieldsOf(context_frame, 1), fields = FieldsOf(frame, count);
    const millrace_rows one = context_fields.View(), many = fields.View();
    std::vector<double> scores(count);
    Checked([&](auto* error) {
      return millrace_score_row_candidates(scorer_, &one, &many, output, scores.data(), nullptr,
                                           error);
    });
    return ArrayOf(std::move(scores));
  }
  py::array JsonCandidates(std::string_view context, std::string_view candidates, int output) {
    std::vector<double> scores(Capacity(candidates));
    size_t rows = 0;
    Checked([&](auto* error) {
      return millrace_score_json_candidates(scorer_, context.data(), context.size(),
                                            candidates.data(), candidates.size(), output,
                                            scores.data(), scores.size(), &rows, nullptr, error);
    });
    scores.resize(rows);
    return ArrayOf(std::move(scores));
  }

  py::dict Info() {
    millrace_score_info info = {};
    Checked([&](auto* error) { return millrace_score_get_info(scorer_, &info, error); });
    const std::unique_ptr<millrace_score_info, void (*)(millrace_score_info*)> owner(
        &info, millrace_score_free_info);
    py::dict about;
    about["kind"] = info.kind;
    about["weights_type"] = info.weights_type;
    about["layout"] = info.layout;
    about["digest"] = info.digest;
    about["num_features"] = info.num_features;
    about["num_weights"] = info.num_weights;
    about["num_factors"] = info.num_factors;
    about["steps"] = info.steps;
    about["examples"] = info.examples;
    about["file_bytes"] = info.file_bytes;
    about["swaps"] = info.swaps;
    about["path"] = info.path;
    about["input_format"] = info.input_format;
    about["feature_spec"] = info.feature_spec;
    return about;
  }

 private:
  // Rows in JSON lines, at most.
  static size_t Capacity(std::string_view lines) {
    return static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n')) + 1;
  }

  millrace_scorer* scorer_ = nullptr;
};

}  // namespace

void BindScorer(py::module_& module) {
  py::class_<Scorer>(module, "Scorer")
      .def(py::init<const std::string&, uint32_t>(), py::arg("path"), py::arg("flags"))
      .def("swap", &Scorer::Swap, py::arg("path"), py::arg("flags"))
      .def("score_keys", &Scorer::ScoreKeys)
      .def("score_frame", &Scorer::ScoreFrame)
      .def("score_json", &Scorer::ScoreJson)
      .def("key_candidates", &Scorer::KeyCandidates)
      .def("frame_candidates", &Scorer::FrameCandidates)
      .def("json_candidates", &Scorer::JsonCandidates)
      .def("info", &Scorer::Info);
  module.attr("PRELOAD") = static_cast<int>(MILLRACE_SCORE_PRELOAD);
  module.attr("VERIFY") = static_cast<int>(MILLRACE_SCORE_VERIFY);
  module.attr("COPY") = static_cast<int>(MILLRACE_SCORE_COPY);
  module.def("verify_model", [](const std::string& path) {
    Checked([&](auto* error) { return millrace_score_verify(path.c_str(), error); });
  });
}

}  // namespace millrace::python
