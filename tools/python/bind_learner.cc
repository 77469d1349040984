// SPDX-License-Identifier: Apache-2.0
// _core.Learner: a model in memory. The estimators of the package check their arguments and call
// it.
#include <algorithm>
#include <memory>
#include <mutex>

#include "io/batch/csr_batch.h"
#include "sparse/score/probability.h"
#include "tools/python/bind.h"
#include "tools/python/learner.h"
#include "trainer/model/model_reader.h"
#include "trainer/sparse/auto_rate.h"

namespace millrace::python {
namespace {

// Takes known options out of a dictionary.
class Options {
 public:
  explicit Options(const py::dict& given) : left_(given.attr("copy")()) {}

  template <typename T>
  void Take(const char* name, T& to) {
    if (!left_.contains(name)) return;
    try {
      to = left_.attr("pop")(name).template cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(std::string(name) + ": expected another type");
    }
  }
  std::string TakeText(const char* name, std::string otherwise) {
    Take(name, otherwise);
    return otherwise;
  }
  void CheckNoneLeft() const {
    for (const auto& [name, value] : left_) {
      throw py::type_error("unknown option '" + py::str(name).cast<std::string>() + "'");
    }
  }

 private:
  py::dict left_;
};

// A model that Python threads share: calls take turns. The mutex is never locked by a thread that
// holds the GIL.
struct SharedLearner {
  py::dict options;
  std::mutex mutex;
  std::unique_ptr<Learner> learner;
};

std::unique_ptr<SharedLearner> NewLearner(const py::dict& given) {
  sparse::ModelShape shape;
  sparse::UpdateOptions update;
  Options options(given);
  options.Take("num_features", shape.num_features);
  options.Take("intercept", shape.intercept);
  shape.factors.kind = ValueOf(sparse::ModelKindFromName(options.TakeText("model", "lr")));
  options.Take("factors", shape.factors.factors);
  options.Take("factor_init", shape.factors.init);
  options.Take("seed", shape.factors.seed);
  update.rule = ValueOf(sparse::RuleFromName(options.TakeText("optimizer", "ftrl")));
  update.decay = ValueOf(sparse::DecayFromName(options.TakeText("decay", "constant")));
  options.Take("learning_rate", update.rate);
  options.Take("l1", update.l1);
  options.Take("l2", update.l2);
  options.Take("factor_l2", update.factor_l2);
  options.Take("ftrl_beta", update.ftrl_beta);
  options.Take("adagrad_epsilon", update.adagrad_epsilon);
  options.Take("adagrad_initial", update.adagrad_initial);
  options.Take("normalize", update.normalize);
  options.CheckNoneLeft();
  auto shared = std::make_unique<SharedLearner>();
  shared->options = given;
  shared->learner = ValueOf(Learner::Create(shape, update));
  return shared;
}

// (indptr, indices, data, number of columns)
using CsrArrays = std::tuple<py::array, py::array, py::array, uint64_t>;

CsrRows RowsOf(const CsrArrays& arrays) {
  const auto& [indptr, indices, data, num_columns] = arrays;
  CsrRows rows;
  if (indptr.dtype().is(py::dtype::of<int32_t>())) {
    rows.index =
        CsrIndex<int32_t>{ViewOf<int32_t>(indptr, "indptr"), ViewOf<int32_t>(indices, "indices")};
  } else {
    rows.index =
        CsrIndex<int64_t>{ViewOf<int64_t>(indptr, "indptr"), ViewOf<int64_t>(indices, "indices")};
  }
  if (data.dtype().is(py::dtype::of<float>())) {
    rows.values = ViewOf<float>(data, "data");
  } else {
    rows.values = ViewOf<double>(data, "data");
  }
  rows.num_columns = num_columns;
  return rows;
}

double Train(SharedLearner& shared, const CsrArrays& arrays, const py::array& labels,
             const std::optional<py::array>& weights, uint64_t epochs, size_t batch_size,
             bool shuffle, uint64_t seed, const py::object& progress) {
  CsrRows rows = RowsOf(arrays);
  rows.labels = ViewOf<uint8_t>(labels, "labels");
  if (weights) rows.weights = ViewOf<double>(*weights, "weights");
  Interrupts interrupts(progress);
  const auto loss = [&] {
    const py::gil_scoped_release release;
    const std::lock_guard lock(shared.mutex);
    return shared.learner->Train(
        rows, {.epochs = epochs, .batch_size = batch_size, .shuffle = shuffle, .seed = seed},
        [&](uint64_t done, double mean_loss) { return interrupts.Check(done, mean_loss); });
  }();
  return ValueOf(loss);
}

py::array Margins(SharedLearner& shared, const CsrArrays& arrays) {
  const CsrRows rows = RowsOf(arrays);
  std::vector<double> margins(rows.rows());
  Interrupts interrupts;
  const Status status = [&] {
    const py::gil_scoped_release release;
    const std::lock_guard lock(shared.mutex);
    return shared.learner->Margins(
        rows, margins, [&](uint64_t done, double) { return interrupts.Check(done, 0); });
  }();
  RaiseIf(status);
  return ArrayOf(std::move(margins));
}

py::array Probabilities(const py::array& margins) {
  const auto from = ViewOf<double>(margins, "margins");
  std::vector<double> probabilities(from.size());
  std::transform(from.begin(), from.end(), probabilities.begin(), score::Probability);
  return ArrayOf(std::move(probabilities));
}

// The numbers of all features, [features][width]: the first ones of their state.
struct Table {
  PodVector<uint64_t> keys;
  PodVector<float> numbers;
  std::vector<float> intercept;  // its state; empty without one
  uint64_t steps = 0, examples = 0;
};

Table ReadTable(SharedLearner& shared, size_t width) {
  const py::gil_scoped_release release;
  const std::lock_guard lock(shared.mutex);
  Table table;
  shared.learner->store().ForEach([&](uint64_t key, std::span<const float> state) {
    if (key == io::kInterceptKey) {
      table.intercept.assign(state.begin(), state.end());
      return;
    }
    table.keys.push_back(key);
    table.numbers.insert(table.numbers.end(), state.begin(),
                         state.begin() + static_cast<ptrdiff_t>(width));
  });
  table.steps = shared.learner->store().steps();
  table.examples = shared.learner->examples();
  return table;
}

py::array WithColumns(py::array array, size_t columns) {
  const auto rows = static_cast<py::ssize_t>(array.size()) / static_cast<py::ssize_t>(columns);
  return array.reshape({rows, static_cast<py::ssize_t>(columns)});
}

// (keys, numbers [keys][1 + factors], intercept)
py::tuple Weights(SharedLearner& shared) {
  const size_t width = 1 + shared.learner->store().factor_width();
  Table table = ReadTable(shared, width);
  const float intercept = table.intercept.empty() ? 0 : table.intercept[0];
  return py::make_tuple(ArrayOf(std::move(table.keys)),
                        WithColumns(ArrayOf(std::move(table.numbers)), width), intercept);
}

py::tuple StateOf(SharedLearner& shared) {
  const size_t width = shared.learner->store().slot_floats();
  Table table = ReadTable(shared, width);
  return py::make_tuple(shared.options, table.steps, table.examples, ArrayOf(std::move(table.keys)),
                        ArrayOf(std::move(table.numbers)), ArrayOf(std::move(table.intercept)));
}

std::unique_ptr<SharedLearner> FromState(const py::tuple& state) {
  if (state.size() != 6) throw py::value_error("state of a learner: expected 6 parts");
  auto shared = NewLearner(state[0].cast<py::dict>());
  sparse::LocalStore& store = shared->learner->store();
  const auto keys = ViewOf<uint64_t>(state[3].cast<py::array>(), "keys");
  const auto numbers = ViewOf<float>(state[4].cast<py::array>(), "numbers");
  const auto intercept = ViewOf<float>(state[5].cast<py::array>(), "intercept");
  const size_t width = store.slot_floats();
  if (numbers.size() != keys.size() * width) {
    throw py::value_error("state of a learner: expected " + std::to_string(keys.size() * width) +
                          " numbers, found " + std::to_string(numbers.size()));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    RaiseIf(store.Load(keys[i], numbers.subspan(i * width, width)));
  }
  if (!intercept.empty()) RaiseIf(store.Load(io::kInterceptKey, intercept));
  store.set_steps(state[1].cast<uint64_t>());
  shared->learner->set_examples(state[2].cast<uint64_t>());
  return shared;
}

std::shared_ptr<const io::EncoderPlan> PlanOf(const std::string& spec) {
  if (spec.empty()) return nullptr;
  return ValueOf(io::EncoderPlan::Make(ValueOf(io::ParseFeatureSpec(spec, "the feature spec"))));
}

void Save(SharedLearner& shared, const std::string& path, const std::string& format,
          const std::string& spec) {
  const auto how = ValueOf(trainer::ModelFormatFromName(format));
  const auto plan = PlanOf(spec);
  const Status status = [&] {
    const py::gil_scoped_release release;
    const std::lock_guard lock(shared.mutex);
    return shared.learner->Save(path, how, plan);
  }();
  RaiseIf(status);
}

void LoadWeights(SharedLearner& shared, const std::string& path) {
  const Status status = [&] {
    const py::gil_scoped_release release;
    const std::lock_guard lock(shared.mutex);
    return shared.learner->LoadWeights(path);
  }();
  RaiseIf(status);
}

// A model file as arrays: a dictionary of its header, and keys, numbers and intercept.
py::tuple ReadModel(const std::string& path) {
  Interrupts interrupts;
  trainer::ModelInfo info;
  PodVector<uint64_t> keys;
  PodVector<float> numbers;
  float intercept = 0;
  const Status status = [&]() -> Status {
    const py::gil_scoped_release release;
    ASSIGN_OR_RETURN(const auto reader, trainer::ModelReader::Open(path));
    info = reader->info();
    const size_t width = 1 + info.factors.width();
    io::StateBlock block;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader->Next(block));
      if (!more) return {};
      for (size_t i = 0; i < block.size(); ++i) {
        const std::span<const float> state = block.state(i).first(width);
        if (block.keys[i] == io::kInterceptKey) {
          intercept = state[0];
          continue;
        }
        keys.push_back(block.keys[i]);
        numbers.insert(numbers.end(), state.begin(), state.end());
      }
      RETURN_IF_ERROR(interrupts.Check());
    }
  }();
  RaiseIf(status);
  py::dict about;
  about["kind"] = sparse::ModelKindName(info.factors.kind);
  about["num_features"] = info.num_features;
  about["rule"] = info.rule;
  about["steps"] = info.steps;
  about["examples"] = info.examples;
  about["factors"] = info.factors.factors;
  about["fields"] = info.factors.fields;
  py::list centers;
  for (const io::ValueCenter& center : info.centers) {
    centers.append(py::make_tuple(center.key, center.center));
  }
  about["centers"] = centers;
  const bool has_spec = info.input && info.input->rows.features;
  about["features"] = has_spec ? py::cast(info.input->rows.features->spec().ToJson()) : py::none();
  return py::make_tuple(about, ArrayOf(std::move(keys)),
                        WithColumns(ArrayOf(std::move(numbers)), 1 + info.factors.width()),
                        intercept);
}

}  // namespace

void BindLearner(py::module_& module) {
  py::class_<SharedLearner>(module, "Learner")
      .def(py::init([](const py::kwargs& options) { return NewLearner(options); }))
      .def("train", &Train, py::arg("rows"), py::arg("labels"), py::arg("weights"),
           py::arg("epochs"), py::arg("batch_size"), py::arg("shuffle"), py::arg("seed"),
           py::arg("progress"))
      .def("margins", &Margins, py::arg("rows"))
      .def("weights", &Weights)
      .def("save", &Save, py::arg("path"), py::arg("format"), py::arg("features"))
      .def("load_weights", &LoadWeights, py::arg("path"))
      .def_property_readonly(
          "num_features",
          [](const SharedLearner& l) { return l.learner->store().shape().num_features; })
      .def_property_readonly("steps",
                             [](const SharedLearner& l) { return l.learner->store().steps(); })
      .def_property_readonly("examples",
                             [](const SharedLearner& l) { return l.learner->examples(); })
      .def(py::pickle(&StateOf, &FromState));
  module.def("read_model", &ReadModel, py::arg("path"));
  module.def("probabilities", &Probabilities, py::arg("margins"));
  module.def("auto_batch_size", &trainer::AutoBatchSize, py::arg("rows"));
  module.def("default_rate", [](const std::string& optimizer) {
    return sparse::UpdateOptions{.rule = ValueOf(sparse::RuleFromName(optimizer))}.Rate();
  });
}

}  // namespace millrace::python
