// A folder of class folders with JPEG and PNG files to Examples with the features
//
//   image/encoded                bytes, the file as it is
//   image/format                 bytes, "jpeg" or "png"
//   image/height, image/width    int64
//   image/class/label            int64, counted from 0
//   image/class/text             bytes, the class folder's name
//   image/filename               bytes, without folder
#pragma once

#include <string>

#include "io/base/status.h"
#include "io/record/block_reader.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/tally.h"

namespace millrace::tools {

// Classes are the subfolders of `folder` in the order of their names, images the files of each in
// the order of theirs; names that begin with a dot are passed over. Anything else that is no image
// is a problem. Also writes `out`'s labels.txt, a class name a line; one that is there already must
// have the same classes, since it may belong to the training half of the data.
Status ConvertImages(const std::string& folder, io::OnCorrupt on_corrupt, ShardWriter& out,
                     ConvertTally& tally);

}  // namespace millrace::tools
