// SPDX-License-Identifier: Apache-2.0
// A set of labelled images with random access from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convnets/net/net_spec.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/state/state_fields.h"

namespace millrace::convnets {

constexpr int32_t kNoImageLabel = -1;

class ImageSet {
 public:
  virtual ~ImageSet() = default;
  virtual size_t size() const = 0;
  virtual Shape shape() const = 0;
  // Writes image `index` as shape().size() floats and returns its label, kNoImageLabel if it has
  // none. `seed` determines the random crop and mirroring. Thread-safe. Errors name file and
  // record.
  virtual Result<int32_t> Read(size_t index, uint64_t seed, std::span<float> pixels) const = 0;
  // Whether Read is slow enough that threads should prefetch.
  virtual bool slow() const = 0;
};

// The preprocessing of an image.
struct ImageOptions {
  Shape shape;               // of the net's input
  size_t num_classes = 10;   // labels are below it
  int64_t label_offset = 0;  // subtracted from every label of a record
  bool augment = false;      // random crop and mirror; without it the centre, as it is
  // A channel's value of 0 to 255 becomes (value - mean) / scale.
  std::vector<float> mean = {};  // empty: 0; one for all or one for each channel
  float scale = 255;
  size_t resize = 0;     // the shorter side before cropping; 0: no crop, resize to the shape itself
  double memory_gb = 8;  // for all images of a set, in the form in which they are kept
  // Whether an image may lack its label: IDX images without a file of labels, and records without
  // the feature.
  io::Labels labels = io::Labels::kRequired;
};

// The options that a net's model file keeps, so that other images get the same preprocessing:
// label_offset, mean, scale and resize.
void AddImageOptions(const ImageOptions& options, io::StateFields& fields);
// Sets these options. An absent or malformed field is an error (kCorrupt) that names it.
Status TakeImageOptions(const io::StateFields& fields, ImageOptions& options);

// Labelled grey images of one byte a pixel: a pair of IDX files, or TFRecords of image_raw and
// label as millrace-records convert writes them; or encoded images (JPEG, PNG) in TFRecords with
// image/encoded and image/class/label. All records are read into memory here, encoded ones as they
// are. `patterns` as in io::ExpandFiles. A corrupt record is an error that names file and offset,
// and more images than memory_gb holds are one that names the file: a small compressed file may
// have any number of them.
Result<std::unique_ptr<ImageSet>> OpenImages(const std::string& patterns,
                                             const ImageOptions& options);

// `size` generated images: a smooth pattern per class, the same for every `seed`, plus noise that
// differs between images.
std::unique_ptr<ImageSet> SyntheticImages(const ImageOptions& options, size_t size, uint64_t seed,
                                          bool test);

}  // namespace millrace::convnets
