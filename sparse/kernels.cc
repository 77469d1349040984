#include "sparse/kernels.h"

#include <string>

namespace millrace::sparse {

Result<const Kernels*> KernelsByName(std::string_view name) {
  if (name == "auto" || name == "native") return &NativeKernels();
  if (name == "plain") return &PlainKernels();
  if (name == "mkl" && MklKernels() != nullptr) return MklKernels();
  if (name == "mkl") {
    return Invalid(
        "kernel mkl: expected Intel MKL (at run time libmkl_rt.so of the package libmkl-rt, at "
        "build time libmkl-dev), found none: install it, or use native");
  }
  return Invalid("kernel: expected auto, native, mkl or plain, found '" + std::string(name) + "'");
}

}  // namespace millrace::sparse
