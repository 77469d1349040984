// SPDX-License-Identifier: Apache-2.0
// The only file that uses MKL. The library is loaded at the first use, so that programs start
// quickly and run where it is not installed. Without its headers at build time there are no MKL
// kernels.
#include "sparse/kernels.h"

#if defined(MILLRACE_HAVE_MKL)
#include <dlfcn.h>
#include <mkl_service.h>
#include <mkl_spblas.h>

#include <optional>
#include <vector>
#endif

namespace millrace::sparse {

#if defined(MILLRACE_HAVE_MKL)
namespace {

struct Mkl {
  decltype(&mkl_sparse_s_create_csr) create_csr = nullptr;
  decltype(&mkl_sparse_s_mv) mv = nullptr;
  decltype(&mkl_sparse_destroy) destroy = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Never unloaded, because its threads keep memory in it.
std::optional<Mkl> Load() {
  void* library = ::dlopen("libmkl_rt.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  decltype(&MKL_Set_Interface_Layer) set_interface = nullptr;
  decltype(&MKL_Set_Threading_Layer) set_threading = nullptr;
  Mkl mkl;
  if (!Find(library, "MKL_Set_Interface_Layer", set_interface) ||
      !Find(library, "MKL_Set_Threading_Layer", set_threading) ||
      !Find(library, "mkl_sparse_s_create_csr", mkl.create_csr) ||
      !Find(library, "mkl_sparse_s_mv", mkl.mv) ||
      !Find(library, "mkl_sparse_destroy", mkl.destroy)) {
    return std::nullopt;
  }
  set_interface(MKL_INTERFACE_LP64);
  set_threading(MKL_THREADING_SEQUENTIAL);
  return mkl;
}

const std::optional<Mkl>& Library() {
  static const std::optional<Mkl> mkl = Load();
  return mkl;
}

// MKL needs explicit values; batches of ones share an array that only grows.
const float* ValuesOf(const io::CsrBatch& batch) {
  if (!batch.values.empty()) return batch.values.data();
  thread_local std::vector<float> ones;
  if (ones.size() < batch.nnz()) ones.resize(batch.nnz(), 1.0f);
  return ones.data();
}

// y = op(X) x over the batch's arrays: the MKL handle exists for this call and copies nothing.
void Multiply(sparse_operation_t operation, const io::CsrBatch& batch, const float* x, float* y,
              size_t columns) {
  sparse_matrix_t handle = nullptr;
  // The interface is not const-correct; a product does not write to the matrix.
  auto* begin = reinterpret_cast<MKL_INT*>(const_cast<uint32_t*>(batch.row_begin.data()));
  auto* cols = reinterpret_cast<MKL_INT*>(const_cast<uint32_t*>(batch.cols.data()));
  auto* values = const_cast<float*>(ValuesOf(batch));
  sparse_status_t status =
      Library()->create_csr(&handle, SPARSE_INDEX_BASE_ZERO, static_cast<MKL_INT>(batch.rows()),
                            static_cast<MKL_INT>(columns), begin, begin + 1, cols, values);
  CHECK(status == SPARSE_STATUS_SUCCESS);
  const matrix_descr general{SPARSE_MATRIX_TYPE_GENERAL, SPARSE_FILL_MODE_FULL,
                             SPARSE_DIAG_NON_UNIT};
  status = Library()->mv(operation, 1.0f, handle, general, x, 0.0f, y);
  CHECK(status == SPARSE_STATUS_SUCCESS);
  Library()->destroy(handle);
}

// MKL rejects an empty matrix.
bool IsEmpty(const io::CsrBatch& batch) { return batch.rows() == 0 || batch.nnz() == 0; }

void Margins(const io::CsrBatch& batch, std::span<const float> weights, std::span<float> margins) {
  if (IsEmpty(batch)) return PlainKernels().margins(batch, weights, margins);
  Multiply(SPARSE_OPERATION_NON_TRANSPOSE, batch, weights.data(), margins.data(), weights.size());
}

void Gradient(const io::CsrBatch& batch, std::span<const float> residuals,
              std::span<float> gradient) {
  if (IsEmpty(batch)) return PlainKernels().gradient(batch, residuals, gradient);
  Multiply(SPARSE_OPERATION_TRANSPOSE, batch, residuals.data(), gradient.data(), gradient.size());
}

}  // namespace

const Kernels* MklKernels() {
  static const Kernels kernels{"mkl", Margins, Gradient, NativeKernels().loss_and_residuals};
  return Library() ? &kernels : nullptr;
}
#else
const Kernels* MklKernels() { return nullptr; }
#endif

}  // namespace millrace::sparse
