// SPDX-License-Identifier: Apache-2.0
#include "io/record/compressor.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <string>

namespace millrace::io {

namespace {

constexpr size_t kStepBytes = 128 << 10;  // output room per step

// Grows `out` by kStepBytes, lets `compress` fill them, and cuts `out` to the filled part.
template <typename Compress>
size_t AppendTo(RawBuffer& out, Compress compress) {
  const size_t old = out.size();
  out.Resize(old + kStepBytes);
  const size_t filled = compress(out.data() + old, kStepBytes);
  out.Resize(old + filled);
  return filled;
}

class ZlibCompressor : public Compressor {
 public:
  static Result<std::unique_ptr<Compressor>> Make(bool gzip, int level) {
    auto made = std::make_unique<ZlibCompressor>();
    constexpr int kWindowBits = 15, kGzipWrapper = 16, kMemLevel = 8;
    const int error =
        deflateInit2(&made->stream_, level, Z_DEFLATED, kWindowBits + (gzip ? kGzipWrapper : 0),
                     kMemLevel, Z_DEFAULT_STRATEGY);
    if (error == Z_MEM_ERROR) throw std::bad_alloc();
    if (error != Z_OK)
      return Invalid("zlib refuses level " + std::to_string(level) + ": " + zError(error));
    made->open_ = true;
    return std::unique_ptr<Compressor>(std::move(made));
  }
  ~ZlibCompressor() override {
    if (open_) deflateEnd(&stream_);
  }

  Status Add(std::string_view in, RawBuffer& out) override {
    constexpr size_t kMaxPiece = 1 << 30;  // zlib counts in 32 bits
    while (!in.empty()) {
      const size_t piece = std::min(in.size(), kMaxPiece);
      RETURN_IF_ERROR(Run(in.substr(0, piece), Z_NO_FLUSH, out));
      in.remove_prefix(piece);
    }
    return {};
  }

  Status Finish(RawBuffer& out) override { return Run({}, Z_FINISH, out); }

 private:
  Status Run(std::string_view in, int flush, RawBuffer& out) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    int code = Z_OK;
    // A step that does not fill its room was the last one.
    while (AppendTo(out, [&](char* room, size_t size) {
             stream_.next_out = reinterpret_cast<Bytef*>(room);
             stream_.avail_out = static_cast<uInt>(size);
             code = deflate(&stream_, flush);
             return size - stream_.avail_out;
           }) == kStepBytes) {
    }
    const bool good =
        code == Z_OK || code == Z_BUF_ERROR || (flush == Z_FINISH && code == Z_STREAM_END);
    return good ? Status() : Invalid(std::string("zlib failed: ") + zError(code));
  }

  z_stream stream_ = {};
  bool open_ = false;
};

class ZstdCompressor : public Compressor {
 public:
  static Result<std::unique_ptr<Compressor>> Make(int level) {
    auto made = std::make_unique<ZstdCompressor>();
    if (level < 0 || level > ZSTD_maxCLevel())
      return Invalid("zstd has no level " + std::to_string(level));
    if (!made->context_) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(made->context_.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(made->context_.get(), ZSTD_c_checksumFlag, 1);
    return std::unique_ptr<Compressor>(std::move(made));
  }

  Status Add(std::string_view in, RawBuffer& out) override {
    ZSTD_inBuffer input = {in.data(), in.size(), 0};
    while (input.pos < input.size) RETURN_IF_ERROR(Run(input, ZSTD_e_continue, out).status());
    return {};
  }

  Status Finish(RawBuffer& out) override {
    ZSTD_inBuffer input = {nullptr, 0, 0};
    for (;;) {
      ASSIGN_OR_RETURN(const size_t left, Run(input, ZSTD_e_end, out));
      if (left == 0) return {};
    }
  }

 private:
  Result<size_t> Run(ZSTD_inBuffer& input, ZSTD_EndDirective directive, RawBuffer& out) {
    size_t left = 0;
    AppendTo(out, [&](char* room, size_t size) {
      ZSTD_outBuffer output = {room, size, 0};
      left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
      return output.pos;
    });
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (ZSTD_isError(left)) return Invalid(std::string("zstd failed: ") + ZSTD_getErrorName(left));
    return left;
  }

  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_{ZSTD_createCCtx(), ZSTD_freeCCtx};
};

}  // namespace

Result<std::unique_ptr<Compressor>> MakeCompressor(Compression compression, int level) {
  switch (compression) {
    case Compression::kNone:
      break;
    case Compression::kGzip:
      return ZlibCompressor::Make(true, level == 0 ? 6 : level);
    case Compression::kZlib:
      return ZlibCompressor::Make(false, level == 0 ? 6 : level);
    case Compression::kZstd:
      return ZstdCompressor::Make(level == 0 ? 1 : level);
  }
  return std::unique_ptr<Compressor>();
}

struct ZstdBlock::Contexts {
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  ZSTD_DCtx* decompress = ZSTD_createDCtx();
  ~Contexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
};

ZstdBlock::ZstdBlock(int level) : contexts_(std::make_unique<Contexts>()), level_(level) {
  if (!contexts_->compress || !contexts_->decompress) throw std::bad_alloc();
}
ZstdBlock::~ZstdBlock() = default;

Status ZstdBlock::Compress(std::string_view in, std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + ZSTD_compressBound(in.size()));
  const size_t size = ZSTD_compressCCtx(contexts_->compress, out.data() + begin, out.size() - begin,
                                        in.data(), in.size(), level_);
  if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) throw std::bad_alloc();
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
