#include "trainer/model/npy_file.h"

namespace millrace::trainer {

std::string NpyHeader(std::string_view descr, uint64_t size) {
  constexpr std::string_view kMagicAndVersion("\x93NUMPY\x01\x00", 8);
  constexpr size_t kPrefixBytes = kMagicAndVersion.size() + 2, kAlign = 64;
  std::string text = "{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': (" +
                     std::to_string(size) + ",), }";
  const size_t whole = (kPrefixBytes + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.resize(whole - kPrefixBytes - 1, ' ');
  text += '\n';
  std::string header(kMagicAndVersion);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace millrace::trainer
