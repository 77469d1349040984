// What a file is that is not what it was taken for.
#pragma once

#include <string>
#include <string_view>

namespace millrace::io {

// For the end of a message about the first record of a supposed TFRecord file, from the file's
// first bytes (decompressed): "; the file looks like libsvm text: ...", with what to do instead.
// Empty where the bytes look like nothing in particular.
std::string FileGuess(std::string_view first);

}  // namespace millrace::io
