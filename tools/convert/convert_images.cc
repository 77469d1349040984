// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/convert_images.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/example/example_encoder.h"
#include "io/record/block_reader.h"
#include "io/record/idx_file.h"
#include "io/record/output_file.h"
#include "tools/common/progress.h"

namespace millrace::convert {
namespace {

using tools::Progress;

namespace fs = std::filesystem;

constexpr uint64_t kProgressImages = 100;
// So that its record stays below the limit of readers; a megabyte is left for the other features.
const uint64_t kMaxImageBytes = io::BlockOptions{}.max_record_bytes - (1 << 20);

// Entries of `folder` by name, without those that begin with a dot.
Result<std::vector<std::string>> SortedNames(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.front() != '.') names.push_back(name);
  }
  if (error) return IoError("cannot list the folder " + folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

struct ImageFile {
  std::string path;
  std::string name;
  int64_t label = 0;
};

struct Listing {
  std::vector<std::string> classes;
  std::vector<ImageFile> files;
};

Result<Listing> ListImages(const std::string& folder, io::OnCorrupt on_corrupt,
                           ConvertTally& tally) {
  Listing listing;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, SortedNames(folder));
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    if (!fs::is_directory(path)) {
      ++tally.records_in;
      RETURN_IF_ERROR(tally.Skip(
          on_corrupt, Corrupt(path + ": expected only class folders here, found a file")));
      continue;
    }
    const auto label = static_cast<int64_t>(listing.classes.size());
    listing.classes.push_back(name);
    ASSIGN_OR_RETURN(const std::vector<std::string> files, SortedNames(path));
    for (const std::string& file : files) {
      listing.files.push_back({(fs::path(path) / file).string(), file, label});
    }
  }
  if (listing.classes.empty()) {
    return Invalid(folder + ": expected a folder for each class in it, found none");
  }
  return listing;
}

Result<std::string> ReadImage(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return Corrupt(path + ": expected a regular file");
  const uint64_t size = fs::file_size(path, error);
  if (error) return IoError("cannot read " + path, error.value());
  if (size > kMaxImageBytes) {
    return Corrupt(path + ": expected an image of at most " + std::to_string(kMaxImageBytes) +
                   " bytes, found " + std::to_string(size));
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return IoError("cannot read " + path, errno);
  }
  return bytes;
}

Status EncodeImage(const ImageFile& file, const std::string& class_name, std::string& record) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadImage(file.path));
  const Result<ImageHeader> header = ReadImageHeader(bytes);
  if (!header.ok()) return Corrupt(file.path + ": " + header.status().message());
  io::ExampleBuilder builder;
  const auto add_bytes = [&](std::string_view name, std::string_view value) {
    builder.AddBytes(name, {&value, 1});
  };
  const auto add_int = [&](std::string_view name, int64_t value) {
    builder.AddInt64(name, {&value, 1});
  };
  add_int("image/class/label", file.label);
  add_bytes("image/class/text", class_name);
  add_bytes("image/encoded", bytes);
  add_bytes("image/filename", file.name);
  add_bytes("image/format", header->format);
  add_int("image/height", header->height);
  add_int("image/width", header->width);
  builder.Finish(record);
  return {};
}

// Checks an existing labels.txt before anything is written.
Status CheckLabels(const std::string& path, const std::string& text) {
  if (!fs::exists(path)) return {};
  if (!fs::is_regular_file(path)) return Invalid(path + ": expected a regular file");
  std::ifstream file(path, std::ios::binary);
  const std::string found((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (found == text) return {};
  return Invalid(path +
                 " has different classes than these images, so the labels would not match: choose "
                 "another --out, or remove it");
}

Status WriteLabels(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, io::AtPath::kReplace));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

using io::IdxFile;

constexpr uint64_t kIdxProgressImages = 1000;

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
  const uint64_t pixels = uint64_t{pair.images.rows()} * pair.images.columns();
  if (pixels > kMaxImageBytes) {
    return Corrupt(pair.images.path() + ": expected images of at most " +
                   std::to_string(kMaxImageBytes) + " bytes, found " +
                   std::to_string(pair.images.rows()) + " x " +
                   std::to_string(pair.images.columns()));
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

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8";

uint32_t LoadBigEndian(std::string_view bytes, size_t at, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

Status Problem(const char* format, size_t at, const std::string& expected,
               const std::string& found) {
  return Corrupt(std::string(format) + ", byte " + std::to_string(at) + ": expected " + expected +
                 ", found " + found);
}

Result<ImageHeader> Sized(const char* format, size_t at, uint32_t height, uint32_t width) {
  if (height > 0 && width > 0) return ImageHeader{format, height, width};
  return Problem(format, at, "a height and a width above 0",
                 std::to_string(height) + " and " + std::to_string(width));
}

// Signature (8 bytes), length of the chunk (4), "IHDR" (4), width (4), height (4).
Result<ImageHeader> ReadPng(std::string_view bytes) {
  constexpr size_t kChunkName = 12, kWidth = 16, kHeight = 20, kEnd = 24;
  if (bytes.size() < kEnd || bytes.substr(kChunkName, 4) != "IHDR") {
    return Problem("png", kChunkName, "an IHDR chunk",
                   bytes.size() < kEnd ? "the end of the file" : "another one");
  }
  return Sized("png", kWidth, LoadBigEndian(bytes, kHeight, 4), LoadBigEndian(bytes, kWidth, 4));
}

// SOF0 to SOF15 but for DHT (c4), JPG (c8) and DAC (cc), which lie between them.
bool IsFrameHeader(unsigned char marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Markers that stand alone: TEM and RST0 to RST7.
bool HasNoLength(unsigned char marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

// Segments are ff, marker, length (2 bytes, counting itself), content. A frame header's content is
// precision (1), height (2), width (2), ...
Result<ImageHeader> ReadJpeg(std::string_view bytes) {
  size_t at = kJpegStart.size();
  while (true) {
    if (at + 4 > bytes.size()) return Problem("jpeg", at, "a frame header", "the end of the file");
    if (bytes[at] != '\xff') return Problem("jpeg", at, "a marker (ff)", "another byte");
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    if (HasNoLength(marker)) {
      at += 2;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) {
      return Problem("jpeg", at, "a frame header before the scan", "none");
    }
    const uint32_t length = LoadBigEndian(bytes, at + 2, 2);
    if (length < 2)
      return Problem("jpeg", at + 2, "a segment of 2 bytes or more", std::to_string(length));
    if (IsFrameHeader(marker)) {
      if (length < 7 || at + 9 > bytes.size()) {
        return Problem("jpeg", at, "a whole frame header", "a part of one");
      }
      return Sized("jpeg", at, LoadBigEndian(bytes, at + 5, 2), LoadBigEndian(bytes, at + 7, 2));
    }
    at += 2 + length;
  }
}

}  // namespace

Status ConvertImages(const std::string& folder, io::OnCorrupt on_corrupt, ShardWriter& out,
                     ConvertTally& tally) {
  ASSIGN_OR_RETURN(const Listing listing, ListImages(folder, on_corrupt, tally));
  std::string labels;
  for (const std::string& name : listing.classes) labels += name + "\n";
  const std::string labels_path = (fs::path(out.folder()) / "labels.txt").string();
  RETURN_IF_ERROR(CheckLabels(labels_path, labels));

  tally.records_in += listing.files.size();
  tally.class_counts.resize(listing.classes.size());
  Progress progress({.work = "converting", .unit = "images", .total = listing.files.size()});
  std::string record;
  uint64_t done = 0;
  for (const ImageFile& file : listing.files) {
    const auto label = static_cast<size_t>(file.label);
    if (const Status encoded = EncodeImage(file, listing.classes[label], record); !encoded.ok()) {
      RETURN_IF_ERROR(tally.Skip(on_corrupt, encoded));
      continue;
    }
    RETURN_IF_ERROR(out.Append(record));
    tally.AddClass(label);
    if (++done % kProgressImages == 0) progress.Add(kProgressImages);
  }
  return WriteLabels(labels_path, labels);
}

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
    if ((i + 1) % kIdxProgressImages == 0) progress.Add(kIdxProgressImages);
  }
  RETURN_IF_ERROR(pair.images.CheckEnd());
  return pair.labels.CheckEnd();
}

Result<ImageHeader> ReadImageHeader(std::string_view bytes) {
  if (bytes.starts_with(kPngSignature)) return ReadPng(bytes);
  if (bytes.starts_with(kJpegStart)) return ReadJpeg(bytes);
  return Corrupt("expected a JPEG or PNG file, found neither signature in its first bytes");
}

}  // namespace millrace::convert
