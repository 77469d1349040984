#include "io/record/zstd_block.h"

#include <zstd.h>

namespace millrace::io {

struct ZstdBlock::Contexts {
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  ZSTD_DCtx* decompress = ZSTD_createDCtx();
  ~Contexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
};

ZstdBlock::ZstdBlock(int level) : contexts_(std::make_unique<Contexts>()), level_(level) {
  CHECK(contexts_->compress && contexts_->decompress);
}
ZstdBlock::~ZstdBlock() = default;

Status ZstdBlock::Compress(std::string_view in, std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + ZSTD_compressBound(in.size()));
  const size_t size = ZSTD_compressCCtx(contexts_->compress, out.data() + begin, out.size() - begin,
                                        in.data(), in.size(), level_);
  if (ZSTD_isError(size)) return Invalid(std::string("zstd: ") + ZSTD_getErrorName(size));
  out.resize(begin + size);
  return {};
}

Status ZstdBlock::Decompress(std::string_view in, size_t size, std::string& out) {
  out.resize(size);
  const size_t found =
      ZSTD_decompressDCtx(contexts_->decompress, out.data(), size, in.data(), in.size());
  if (ZSTD_isError(found)) return Corrupt(std::string("zstd: ") + ZSTD_getErrorName(found));
  if (found == size) return {};
  return Corrupt("zstd: expected " + std::to_string(size) + " bytes, found " +
                 std::to_string(found));
}

}  // namespace millrace::io
