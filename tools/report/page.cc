// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <sys/random.h>

#include "io/base/json.h"

// The files of the folder page, embedded in the program by the assembler.
#define EMBED(symbol, path)                                       \
  __asm__(".section .rodata\n.global " #symbol                    \
          "_begin\n"                                              \
          ".global " #symbol "_end\n" #symbol                     \
          "_begin:\n"                                             \
          ".incbin \"" path "\"\n" #symbol "_end:\n.previous\n"); \
  extern "C" const char symbol##_begin[], symbol##_end[]

EMBED(millrace_page_html, MILLRACE_PAGE_DIR "/page.html");
EMBED(millrace_page_css, MILLRACE_PAGE_DIR "/page.css");
EMBED(millrace_page_charts, MILLRACE_PAGE_DIR "/charts.js");
EMBED(millrace_page_timeline, MILLRACE_PAGE_DIR "/timeline.js");
EMBED(millrace_page_graph, MILLRACE_PAGE_DIR "/graph.js");
EMBED(millrace_page_script, MILLRACE_PAGE_DIR "/page.js");
EMBED(millrace_compare_html, MILLRACE_PAGE_DIR "/compare.html");
EMBED(millrace_compare_script, MILLRACE_PAGE_DIR "/compare.js");

namespace millrace::report {
namespace {

#define EMBEDDED(symbol) \
  std::string_view(symbol##_begin, static_cast<size_t>(symbol##_end - symbol##_begin))

// Inside a script element, "<" could end it.
std::string Escaped(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string Filled(std::string_view html, std::string_view script, std::string_view data_json,
                   const std::string& nonce) {
  std::string page(html);
  const auto put = [&](std::string_view mark, std::string_view text) {
    for (size_t at = 0; (at = page.find(mark, at)) != std::string::npos; at += text.size())
      page.replace(at, mark.size(), text);
  };
  put("@POLICY@", ContentPolicy(nonce));
  put("@NONCE@", nonce);
  put("@STYLE@", EMBEDDED(millrace_page_css));
  put("@SCRIPT@", script);
  put("@DATA@", data_json.empty() ? "null" : Escaped(data_json));
  return page;
}

}  // namespace

std::string NewNonce() {
  char bytes[16];
  CHECK(::getrandom(bytes, sizeof bytes, 0) == ssize_t{sizeof bytes});  // cannot fail for so few
  return Base64({bytes, sizeof bytes});
}

std::string ContentPolicy(const std::string& nonce) {
  return "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
         "'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";
}

std::string PageHtml(std::string_view data_json, const std::string& nonce) {
  std::string script(EMBEDDED(millrace_page_charts));
  script += EMBEDDED(millrace_page_timeline);
  script += EMBEDDED(millrace_page_graph);
  script += EMBEDDED(millrace_page_script);
  return Filled(EMBEDDED(millrace_page_html), script, data_json, nonce);
}

std::string ComparePageHtml(std::string_view data_json, const std::string& nonce) {
  std::string script(EMBEDDED(millrace_page_charts));
  script += EMBEDDED(millrace_compare_script);
  return Filled(EMBEDDED(millrace_compare_html), script, data_json, nonce);
}

}  // namespace millrace::report
