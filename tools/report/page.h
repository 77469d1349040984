// The report page: one HTML file with its style, its script and its data inside.
#pragma once

#include <string>
#include <string_view>

namespace millrace::tools {

// `data_json` as PageDataJson makes it; empty: a page that asks the server it came from for
// data.json, again and again.
std::string PageHtml(std::string_view data_json);

}  // namespace millrace::tools
