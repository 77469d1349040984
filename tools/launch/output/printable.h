// Text that can be shown whatever a program has written.
#pragma once

#include <string>
#include <string_view>

namespace millrace::tools {

// UTF-8 and tabs stay. Control characters, which could move the cursor or change the terminal, and
// bytes that are not UTF-8 become \xNN.
std::string Printable(std::string_view bytes);

}  // namespace millrace::tools
