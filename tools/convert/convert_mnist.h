// A pair of IDX files, images and labels, to Examples with the features
//   image_raw  bytes, rows x columns gray levels, row by row     label  int64
//   height, width, depth (1)  int64
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/tally.h"

namespace millrace::tools {

// `files` are one file of images and one of labels, in any order. With OnCorrupt::kSkip, what a
// file that ends early still holds is converted, and the rest counts as skipped.
Status ConvertMnist(const std::vector<std::string>& files, io::OnCorrupt on_corrupt,
                    ShardWriter& out, ConvertTally& tally);

}  // namespace millrace::tools
