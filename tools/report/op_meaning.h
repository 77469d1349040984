// What an op does, in a few words.
#pragma once

#include <string>

namespace millrace::tools {

// "X·w" for "margins"; of a net's layer, which way. Empty for a name that no program gives a span.
std::string OpMeaning(const std::string& op);

}  // namespace millrace::tools
