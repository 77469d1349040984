// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/image_set.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "convnets/input/image_decoder.h"
#include "convnets/input/preprocess.h"
#include "io/base/random.h"
#include "io/example/feature_view.h"
#include "io/record/idx_file.h"
#include "io/record/record_reader.h"
#include "io/stream/file_list.h"
#include "io/text/file_format.h"
#include "profiler/trace.h"

namespace millrace::convnets {
namespace {

constexpr uint64_t kMaxReserveBytes = 64 << 20;

// One image as it was found: raw grey bytes of the net's own size, or an encoded image.
struct Item {
  size_t begin = 0, size = 0;  // in bytes_
  uint64_t offset = 0;         // of its record in its file
  uint32_t file = 0;
  int32_t label = 0;
  bool encoded = false;
};

class LoadedImages final : public ImageSet {
 public:
  explicit LoadedImages(const ImageOptions& options) : options_(options) {}

  size_t size() const override { return items_.size(); }
  Shape shape() const override { return options_.shape; }
  bool slow() const override { return any_encoded_; }

  Result<int32_t> Read(size_t index, uint64_t seed, std::span<float> pixels) const override {
    const Item& item = items_[index];
    const std::string_view bytes = std::string_view(bytes_).substr(item.begin, item.size);
    if (!item.encoded) {
      ReadRaw(bytes, pixels);
      return item.label;
    }
    TRACE_SCOPE("decode image", 1, static_cast<int64_t>(bytes.size()));
    const Result<RgbImage> image = DecodeImage(bytes, options_.resize);
    if (!image.ok()) return Corrupt(Place(item) + ": " + image.status().message());
    FitImage(*image, options_, seed, pixels);
    return item.label;
  }

  Status Load(const std::vector<std::string>& files) {
    files_ = files;
    if (files.size() == 2 && (IsIdx(files[0]) || IsIdx(files[1]))) return LoadIdx();
    const bool needs_labels = options_.labels == io::Labels::kRequired;
    if (files.size() == 1 && !needs_labels && IsIdx(files[0])) return LoadIdxImages();
    for (uint32_t file = 0; file < files.size(); ++file) RETURN_IF_ERROR(LoadRecords(file));
    if (items_.empty()) return Invalid(files[0] + ": expected images, found no record");
    return {};
  }

 private:
  // By its content, which a pipe cannot show twice.
  static bool IsIdx(const std::string& path) {
    if (!std::filesystem::is_regular_file(path)) return false;
    Result<io::OpenedSource> source = io::OpenSource(path);
    char first[4];
    size_t got = 0;
    return source.ok() && source->bytes->Read(first, &got).ok() && io::IsIdxHeader({first, got});
  }

  void ReadRaw(std::string_view bytes, std::span<float> pixels) const {
    const float mean = options_.mean.empty() ? 0 : options_.mean[0];
    BytesToFloats(reinterpret_cast<const uint8_t*>(bytes.data()), pixels.size(), mean,
                  1 / options_.scale, pixels.data());
  }

  std::string Place(const Item& item) const {
    return files_[item.file] + ": record at offset " + std::to_string(item.offset);
  }

  // Takes an image in, after a look at its label, if it has one, and at its size, if it is raw.
  Status Add(std::string_view bytes, std::optional<int64_t> label, bool encoded, uint32_t file,
             uint64_t offset) {
    Item item = {.begin = bytes_.size(),
                 .size = bytes.size(),
                 .offset = offset,
                 .file = file,
                 .encoded = encoded};
    const int64_t shifted = label.value_or(0) - options_.label_offset;
    if (label && (shifted < 0 || shifted >= static_cast<int64_t>(options_.num_classes))) {
      return Corrupt(
          Place(item) + ": label: expected " + std::to_string(options_.label_offset) + " to " +
          std::to_string(options_.label_offset + static_cast<int64_t>(options_.num_classes) - 1) +
          ", found " + std::to_string(*label));
    }
    if (!encoded && bytes.size() != options_.shape.size()) {
      return Corrupt(Place(item) + ": image: expected " + std::to_string(options_.shape.size()) +
                     " bytes (" + ShapeText(options_.shape) + "), found " +
                     std::to_string(bytes.size()));
    }
    const auto used =
        static_cast<double>(bytes_.size() + bytes.size() + (items_.size() + 1) * sizeof(Item));
    if (used > options_.memory_gb * 1e9) {
      char limit[32];
      std::snprintf(limit, sizeof limit, "%g", options_.memory_gb);
      return Invalid(Place(item) + ": expected images that fit in " + limit + " GB, found " +
                     std::to_string(items_.size() + 1) +
                     " that do not; if the files are right, raise memory_gb");
    }
    item.label = label ? static_cast<int32_t>(shifted) : kNoImageLabel;
    any_encoded_ |= encoded;
    bytes_ += bytes;
    items_.push_back(item);
    return {};
  }

  Status LoadIdx() {
    ASSIGN_OR_RETURN(io::IdxFile images, io::IdxFile::Open(files_[0], false));
    ASSIGN_OR_RETURN(io::IdxFile labels, io::IdxFile::Open(files_[1], false));
    if (!images.is_images()) std::swap(images, labels);
    if (!images.is_images() || labels.is_images()) {
      return Invalid(files_[0] + ", " + files_[1] +
                     ": expected one file of images and one of labels");
    }
    if (images.count() != labels.count()) {
      return Corrupt(labels.path() + ": expected " + std::to_string(images.count()) +
                     " labels, one for each image of " + images.path() + ", found " +
                     std::to_string(labels.count()));
    }
    const uint32_t file = images.path() == files_[0] ? 0 : 1;
    const size_t image_bytes = size_t{images.rows()} * images.columns();
    // Not all that the header claims: a compressed file may be shorter.
    bytes_.reserve(std::min<uint64_t>(uint64_t{images.count()} * image_bytes, kMaxReserveBytes));
    for (uint32_t i = 0; i < images.count(); ++i) {
      ASSIGN_OR_RETURN(const std::string_view pixels, images.Next());
      ASSIGN_OR_RETURN(const std::string_view label, labels.Next());
      RETURN_IF_ERROR(
          Add(pixels, static_cast<uint8_t>(label[0]), false, file, 16 + i * image_bytes));
    }
    RETURN_IF_ERROR(images.CheckEnd());
    return labels.CheckEnd();
  }

  Status LoadIdxImages() {
    ASSIGN_OR_RETURN(io::IdxFile images, io::IdxFile::Open(files_[0], false));
    if (!images.is_images()) {
      return Invalid(files_[0] + ": expected images, found labels alone");
    }
    const size_t image_bytes = size_t{images.rows()} * images.columns();
    for (uint32_t i = 0; i < images.count(); ++i) {
      ASSIGN_OR_RETURN(const std::string_view pixels, images.Next());
      RETURN_IF_ERROR(Add(pixels, std::nullopt, false, 0, 16 + i * image_bytes));
    }
    return images.CheckEnd();
  }

  Status LoadRecords(uint32_t file) {
    const io::BlockOptions options = {.describe_content = io::DescribeContent};
    ASSIGN_OR_RETURN(io::RecordReader reader, io::RecordReader::Open(files_[file], options));
    io::RecordView record;
    io::ExampleView example;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(record));
      if (!more) return {};
      const std::string place =
          files_[file] + ": record at offset " + std::to_string(record.offset);
      if (const Status parsed = ParseExample(record.bytes, example); !parsed.ok()) {
        return Corrupt(place + ": " + parsed.message());
      }
      RETURN_IF_ERROR(AddExample(example, place, file, record.offset));
    }
  }

  Status AddExample(const io::ExampleView& example, const std::string& place, uint32_t file,
                    uint64_t offset) {
    const bool encoded = example.Find("image/encoded") != nullptr;
    const char* const image_name = encoded ? "image/encoded" : "image_raw";
    const char* const label_name = encoded ? "image/class/label" : "label";
    const io::FeatureView* image = example.Find(image_name);
    const io::FeatureView* label = example.Find(label_name);
    if (!image || image->bytes.size() != 1) {
      return Corrupt(place +
                     ": expected a feature image/encoded or image_raw of one bytes value; the "
                     "record has " +
                     ListFeatures(example));
    }
    if (!label && options_.labels == io::Labels::kOptional) {
      return Add(image->bytes[0], std::nullopt, encoded, file, offset);
    }
    if (!label || label->ints.size() != 1) {
      return Corrupt(place + ": expected a feature " + label_name +
                     " of one int64 value; the record has " + ListFeatures(example));
    }
    return Add(image->bytes[0], label->ints[0], encoded, file, offset);
  }

  ImageOptions options_;
  std::vector<std::string> files_;
  std::string bytes_;
  std::vector<Item> items_;
  bool any_encoded_ = false;
};

constexpr uint64_t kPatternStream = 0x5a77, kNoiseStream = 0x5a78;

// Two waves across the image for each class and channel; noise of about the same size on top.
class Synthetic final : public ImageSet {
 public:
  Synthetic(const ImageOptions& options, size_t size, uint64_t seed, bool test)
      : options_(options), size_(size), seed_(seed), test_(test) {}

  size_t size() const override { return size_; }
  Shape shape() const override { return options_.shape; }
  bool slow() const override { return options_.shape.size() > 4096; }

  Result<int32_t> Read(size_t index, uint64_t, std::span<float> pixels) const override {
    Random random(DeriveSeed(seed_, kNoiseStream + (test_ ? 1 : 0), index));
    const auto label = static_cast<int32_t>(random.Below(options_.num_classes));
    const Shape& s = options_.shape;
    size_t at = 0;
    for (size_t c = 0; c < s.channels; ++c) {
      const Waves waves(DeriveSeed(kPatternStream, static_cast<uint64_t>(label), c));
      for (size_t y = 0; y < s.height; ++y) {
        const float row = waves.Row(static_cast<float>(y) / static_cast<float>(s.height));
        for (size_t x = 0; x < s.width; x += 4) {
          const uint64_t noise = random.Next();
          const float column = waves.Column(static_cast<float>(x) / static_cast<float>(s.width));
          for (size_t j = x; j < std::min(x + 4, s.width); ++j) {
            const auto part = static_cast<float>((noise >> (16 * (j - x))) & 0xffff);
            pixels[at++] = row * column + (part / 65536 - 0.5f);
          }
        }
      }
    }
    return label;
  }

 private:
  struct Waves {
    explicit Waves(uint64_t seed) {
      Random random(seed);
      fy = static_cast<float>(1 + random.Below(5));
      fx = static_cast<float>(1 + random.Below(5));
      py = static_cast<float>(random.Uniform());
      px = static_cast<float>(random.Uniform());
    }
    float Row(float y) const { return std::sin(6.2831853f * (fy * y + py)); }
    float Column(float x) const { return std::cos(6.2831853f * (fx * x + px)); }
    float fy, fx, py, px;
  };

  ImageOptions options_;
  size_t size_;
  uint64_t seed_;
  bool test_;
};

}  // namespace

void AddImageOptions(const ImageOptions& options, io::StateFields& fields) {
  fields.Add("input.label_offset", std::to_string(options.label_offset));
  for (size_t c = 0; c < options.mean.size(); ++c) {
    fields.Add("input.mean." + std::to_string(c), io::NumberText(options.mean[c]));
  }
  fields.Add("input.scale", io::NumberText(options.scale));
  fields.AddUint("input.resize", options.resize);
}

Status TakeImageOptions(const io::StateFields& fields, ImageOptions& options) {
  ASSIGN_OR_RETURN(const double label_offset, fields.Double("input.label_offset"));
  ASSIGN_OR_RETURN(const double scale, fields.Double("input.scale"));
  ASSIGN_OR_RETURN(options.resize, fields.Uint("input.resize"));
  options.label_offset = static_cast<int64_t>(label_offset);
  options.scale = static_cast<float>(scale);
  options.mean.clear();
  for (size_t c = 0; c < options.shape.channels; ++c) {
    const std::string name = "input.mean." + std::to_string(c);
    if (!fields.Text(name).ok()) break;
    ASSIGN_OR_RETURN(const double mean, fields.Double(name));
    options.mean.push_back(static_cast<float>(mean));
  }
  return {};
}

Result<std::unique_ptr<ImageSet>> OpenImages(const std::string& patterns,
                                             const ImageOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, io::ExpandFiles(patterns));
  auto images = std::make_unique<LoadedImages>(options);
  RETURN_IF_ERROR(images->Load(files));
  return std::unique_ptr<ImageSet>(std::move(images));
}

std::unique_ptr<ImageSet> SyntheticImages(const ImageOptions& options, size_t size, uint64_t seed,
                                          bool test) {
  return std::make_unique<Synthetic>(options, size, seed, test);
}

}  // namespace millrace::convnets
