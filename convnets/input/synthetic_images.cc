#include <cmath>

#include "convnets/input/image_set.h"
#include "io/base/random.h"

namespace millrace::convnets {
namespace {

constexpr uint64_t kPatternStream = 0x5a77, kNoiseStream = 0x5a78;

// Two waves across the image for each class and channel; noise of about the same size on top.
class Synthetic final : public ImageSet {
 public:
  Synthetic(const ImageOptions& options, size_t size, uint64_t seed, bool test)
      : options_(options), size_(size), seed_(seed), test_(test) {}

  size_t size() const override { return size_; }
  Shape shape() const override { return options_.shape; }
  bool slow() const override { return options_.shape.size() > 4096; }

  Result<int32_t> Read(size_t index, uint64_t, std::span<float> pixels) const override {
    Random random(DeriveSeed(seed_, kNoiseStream + (test_ ? 1 : 0), index));
    const auto label = static_cast<int32_t>(random.Below(options_.num_classes));
    const Shape& s = options_.shape;
    size_t at = 0;
    for (size_t c = 0; c < s.channels; ++c) {
      const Waves waves(DeriveSeed(kPatternStream, static_cast<uint64_t>(label), c));
      for (size_t y = 0; y < s.height; ++y) {
        const float row = waves.Row(static_cast<float>(y) / static_cast<float>(s.height));
        for (size_t x = 0; x < s.width; x += 4) {
          const uint64_t noise = random.Next();
          const float column = waves.Column(static_cast<float>(x) / static_cast<float>(s.width));
          for (size_t j = x; j < std::min(x + 4, s.width); ++j) {
            const auto part = static_cast<float>((noise >> (16 * (j - x))) & 0xffff);
            pixels[at++] = row * column + (part / 65536 - 0.5f);
          }
        }
      }
    }
    return label;
  }

 private:
  struct Waves {
    explicit Waves(uint64_t seed) {
      Random random(seed);
      fy = static_cast<float>(1 + random.Below(5));
      fx = static_cast<float>(1 + random.Below(5));
      py = static_cast<float>(random.Uniform());
      px = static_cast<float>(random.Uniform());
    }
    float Row(float y) const { return std::sin(6.2831853f * (fy * y + py)); }
    float Column(float x) const { return std::cos(6.2831853f * (fx * x + px)); }
    float fy, fx, py, px;
  };

  ImageOptions options_;
  size_t size_;
  uint64_t seed_;
  bool test_;
};

}  // namespace

std::unique_ptr<ImageSet> SyntheticImages(const ImageOptions& options, size_t size, uint64_t seed,
                                          bool test) {
  return std::make_unique<Synthetic>(options, size, seed, test);
}

}  // namespace millrace::convnets
