// SPDX-License-Identifier: Apache-2.0
// _core.RecordReader: the batches of files in any format, as arrays.
#include <algorithm>
#include <memory>
#include <thread>

#include "io/queue/input_queue.h"
#include "io/stream/file_list.h"
#include "tools/python/bind.h"

namespace millrace::python {
namespace {

struct Arguments {
  std::string files, format, features, on_corrupt;
  uint64_t num_features = 0, seed = 1, epochs = 1;
  size_t batch_size = 1000, threads = 0;
  int hash_bits = 0, index_base = 0;
  bool shuffle = false, require_labels = true;
  std::optional<float> positive_label;
};

Result<io::InputOptions> InputOf(const Arguments& args) {
  io::InputOptions input;
  ASSIGN_OR_RETURN(input.files, io::ExpandFiles(args.files));
  if (args.format == "auto") {
    ASSIGN_OR_RETURN(input.format, io::DetectInputFormat(input.files));
  } else {
    ASSIGN_OR_RETURN(input.format, io::InputFormatFromName(args.format));
  }
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(args.on_corrupt));
  input.batch_size = args.batch_size;
  input.seed = args.seed;
  input.epochs = args.epochs;
  input.threads =
      args.threads > 0 ? args.threads : std::max<size_t>(1, std::thread::hardware_concurrency());
  if (!args.shuffle) {
    std::sort(input.files.begin(), input.files.end());
    input.shuffle_capacity = input.min_after_dequeue = 0;
  }
  input.rows = {.names = {.weight = io::kWeightFeature},
                .num_features = args.num_features,
                .index_base = args.index_base,
                .hash_bits = args.hash_bits,
                .labels = args.require_labels ? io::Labels::kRequired : io::Labels::kOptional,
                .positive_label = args.positive_label};
  if (!args.features.empty()) {
    ASSIGN_OR_RETURN(const io::FeatureSpec spec,
                     io::ParseFeatureSpec(args.features, "the feature spec"));
    if (!spec.IsFitted()) return Invalid("the feature spec needs a first pass: call fit");
    ASSIGN_OR_RETURN(const auto plan, io::EncoderPlan::Make(spec));
    RETURN_IF_ERROR(io::UseFeatures(plan, input));
  } else if (io::NeedsFeatureSpec(input.format)) {
    return io::MissingFeatureSpec(input.format);
  }
  // 64-bit keys need a compacted batch.
  input.compact = io::NeedsWideKeys(input.rows.num_features);
  return input;
}

class RecordReader {
 public:
  explicit RecordReader(const Arguments& args) {
    input_ = ValueOf(InputOf(args));
    input_.should_stop = [this] { return !interrupts_.Check().ok(); };
    auto opened = [&] {
      const py::gil_scoped_release release;
      return io::InputQueue::Open(input_);
    }();
    queue_ = ValueOf(std::move(opened));
  }
  ~RecordReader() { Close(); }
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // The threads of the queue end.
  void Close() {
    const py::gil_scoped_release release;
    queue_.reset();
  }

  uint64_t num_features() const { return input_.rows.num_features; }
  uint64_t skipped() const { return queue_ ? queue_->corruption().events : 0; }

  // (indptr, indices, data or None, labels, weights or None), or None at the end.
  py::object Next() {
    if (!queue_) return py::none();
    const io::CsrBatch* batch = nullptr;
    const auto more = [&] {
      const py::gil_scoped_release release;
      return queue_->Next(batch);
    }();
    if (!ValueOf(more)) return py::none();
    return py::make_tuple(
        ArrayOf(PodVector<int64_t>(batch->row_begin.begin(), batch->row_begin.end())),
        ArrayOf(ColumnsOf(*batch)), ArrayOrNone(PodVector<float>(batch->values)),
        ArrayOf(PodVector<float>(batch->labels)), ArrayOrNone(PodVector<float>(batch->weights)));
  }

 private:
  static PodVector<int64_t> ColumnsOf(const io::CsrBatch& batch) {
    PodVector<int64_t> columns(batch.nnz());
    for (size_t i = 0; i < columns.size(); ++i) {
      const uint64_t key = batch.compacted ? batch.keys[batch.cols[i]] : batch.cols[i];
      if (key >> 63 != 0) {
        throw py::value_error("key " + std::to_string(key) +
                              ": a matrix has columns below 2^63: hash_bits makes smaller keys");
      }
      columns[i] = static_cast<int64_t>(key);
    }
    return columns;
  }

  io::InputOptions input_;
  Interrupts interrupts_;
  std::unique_ptr<io::InputQueue> queue_;
};

}  // namespace

void BindRecords(py::module_& module) {
  py::class_<RecordReader>(module, "RecordReader")
      .def(py::init([](std::string files, std::string format, std::string features,
                       uint64_t num_features, size_t batch_size, bool shuffle, uint64_t seed,
                       uint64_t epochs, int hash_bits, int index_base,
                       std::optional<float> positive_label, std::string on_corrupt,
                       bool require_labels, size_t threads) {
             return std::make_unique<RecordReader>(Arguments{.files = std::move(files),
                                                             .format = std::move(format),
                                                             .features = std::move(features),
                                                             .on_corrupt = std::move(on_corrupt),
                                                             .num_features = num_features,
                                                             .seed = seed,
                                                             .epochs = epochs,
                                                             .batch_size = batch_size,
                                                             .threads = threads,
                                                             .hash_bits = hash_bits,
                                                             .index_base = index_base,
                                                             .shuffle = shuffle,
                                                             .require_labels = require_labels,
                                                             .positive_label = positive_label});
           }),
           py::kw_only(), py::arg("files"), py::arg("format"), py::arg("features"),
           py::arg("num_features"), py::arg("batch_size"), py::arg("shuffle"), py::arg("seed"),
           py::arg("epochs"), py::arg("hash_bits"), py::arg("index_base"),
           py::arg("positive_label"), py::arg("on_corrupt"), py::arg("require_labels"),
           py::arg("threads"))
      .def("next", &RecordReader::Next)
      .def("close", &RecordReader::Close)
      .def_property_readonly("num_features", &RecordReader::num_features)
      .def_property_readonly("skipped", &RecordReader::skipped);
}

}  // namespace millrace::python
