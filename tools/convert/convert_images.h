// SPDX-License-Identifier: Apache-2.0
// Images to Examples: folders of JPEG and PNG files, and pairs of IDX files such as MNIST.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/summary.h"

namespace millrace::convert {

// A folder of class folders with JPEG and PNG files to Examples with the features
//
//   image/encoded                bytes, the content of the file
//   image/format                 bytes, "jpeg" or "png"
//   image/height, image/width    int64
//   image/class/label            int64, counted from 0
//   image/class/text             bytes, the class folder's name
//   image/filename               bytes, without folder
//
// Classes are the subfolders of `folder` in the order of their names, images the files of each in
// the order of theirs; names that begin with a dot are skipped. Any other file that is not an image
// is an error (or skipped, with OnCorrupt::kSkip). Also writes `out`'s labels.txt, one class name
// per line. An existing labels.txt must have the same classes, since it may belong to the training
// data.
Status ConvertImages(const std::string& folder, io::OnCorrupt on_corrupt, ShardWriter& out,
                     ConvertTally& tally);

// A pair of IDX files, images and labels, to Examples with the features
//
//   image_raw  bytes, rows x columns gray levels, row by row     label  int64
//   height, width, depth (1)  int64
//
// `files` are one file of images and one of labels, in any order. With OnCorrupt::kSkip, the
// images of a truncated file are converted, and the rest counts as skipped.
Status ConvertMnist(const std::vector<std::string>& files, io::OnCorrupt on_corrupt,
                    ShardWriter& out, ConvertTally& tally);

// The format and size of an encoded image, from its first bytes.

struct ImageHeader {
  const char* format = "";  // "jpeg" or "png", by the content
  uint32_t height = 0;
  uint32_t width = 0;
};

// Reads PNG's IHDR chunk, or walks JPEG's segments up to the frame header. Errors have the offset,
// what was expected and what was found.
Result<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace millrace::convert
