// Where a record was, for messages.
#pragma once

#include <string>

#include "io/stream/block_pool.h"

namespace millrace::io {

// "file: offset n: "; of a line of text "file:12: offset n: ", as compilers and editors know it.
// Which line it is, is counted by reading the file up to there: not for pipes, and not under a
// lock.
std::string PlaceText(const RecordOrigin& origin, Framing framing);

}  // namespace millrace::io
