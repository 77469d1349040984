#include "tools/convert/convert_mnist.h"

#include "io/example/example_encoder.h"
#include "io/record/idx_file.h"
#include "tools/common/progress.h"

namespace millrace::tools {
namespace {

using io::IdxFile;

constexpr uint64_t kProgressImages = 1000;

struct IdxPair {
  IdxFile images;
  IdxFile labels;
};

Result<IdxPair> OpenPair(const std::vector<std::string>& files, bool short_files) {
  if (files.size() != 2) {
    return Invalid("mnist: expected two files, images and labels, found " +
                   std::to_string(files.size()));
  }
  ASSIGN_OR_RETURN(IdxFile first, IdxFile::Open(files[0], short_files));
  ASSIGN_OR_RETURN(IdxFile second, IdxFile::Open(files[1], short_files));
  if (first.is_images() == second.is_images()) {
    return Invalid(
        std::string("mnist: expected one file of images and one of labels, found two of ") +
        (first.is_images() ? "images" : "labels"));
  }
  IdxPair pair = first.is_images() ? IdxPair{std::move(first), std::move(second)}
                                   : IdxPair{std::move(second), std::move(first)};
  if (pair.images.count() != pair.labels.count()) {
    return Corrupt(pair.labels.path() + ": expected " + std::to_string(pair.images.count()) +
                   " labels, one for each image of " + pair.images.path() + ", found " +
                   std::to_string(pair.labels.count()));
  }
  return pair;
}

void EncodeImage(std::string_view pixels, int64_t label, const IdxFile& images,
                 std::string& record) {
  const int64_t height = images.rows(), width = images.columns(), depth = 1;
  io::ExampleBuilder builder;
  builder.AddInt64("depth", {&depth, 1});
  builder.AddInt64("height", {&height, 1});
  builder.AddBytes("image_raw", {&pixels, 1});
  builder.AddInt64("label", {&label, 1});
  builder.AddInt64("width", {&width, 1});
  builder.Finish(record);
}

// The next image with its label, as a record.
Status ReadImage(IdxPair& pair, std::string& record, ConvertTally& tally) {
  ASSIGN_OR_RETURN(const std::string_view pixels, pair.images.Next());
  ASSIGN_OR_RETURN(const std::string_view label, pair.labels.Next());
  const auto number = static_cast<unsigned char>(label[0]);
  EncodeImage(pixels, number, pair.images, record);
  tally.AddClass(number);
  return {};
}

}  // namespace

Status ConvertMnist(const std::vector<std::string>& files, io::OnCorrupt on_corrupt,
                    ShardWriter& out, ConvertTally& tally) {
  ASSIGN_OR_RETURN(IdxPair pair, OpenPair(files, on_corrupt == io::OnCorrupt::kSkip));
  const uint32_t count = pair.images.count();
  tally.records_in = count;
  Progress progress({.work = "converting", .unit = "images", .total = count});
  std::string record;
  for (uint32_t i = 0; i < count; ++i) {
    if (const Status read = ReadImage(pair, record, tally); !read.ok()) {
      return tally.Skip(on_corrupt, read, count - i);
    }
    RETURN_IF_ERROR(out.Append(record));
    if ((i + 1) % kProgressImages == 0) progress.Add(kProgressImages);
  }
  RETURN_IF_ERROR(pair.images.CheckEnd());
  return pair.labels.CheckEnd();
}

}  // namespace millrace::tools
