#include "tools/synth/field_sizes.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "io/base/status.h"
#include "tools/synth/portable_math.h"

namespace millrace::tools {
namespace {

constexpr uint64_t kModel[] = {
    // counts, bucketed
    42, 75, 61, 35, 98, 70, 55, 38, 64, 11, 30, 19, 46,
    // categorical
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
    5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572};

std::vector<double> ModelSizes(uint64_t fields) {
  std::vector<double> sizes;
  for (uint64_t i = 0; i < fields; ++i)
    sizes.push_back(static_cast<double>(kModel[i % std::size(kModel)]));
  return sizes;
}

std::vector<double> ToPower(std::vector<double> sizes, double power) {
  for (double& size : sizes) size = Pow(size, power);
  return sizes;
}

double Sum(const std::vector<double>& sizes) {
  double sum = 0;
  for (const double size : sizes) sum += size;
  return sum;
}

// The sizes to that power below 1 whose sum is `total`.
std::vector<double> Compressed(const std::vector<double>& sizes, double total) {
  double low = 0, high = 1;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (Sum(ToPower(sizes, middle)) < total ? low : high) = middle;
  }
  return ToPower(sizes, low);
}

std::vector<double> Stretched(std::vector<double> sizes, double total) {
  const double factor = total / Sum(sizes);
  for (double& size : sizes) size *= factor;
  return sizes;
}

// Settles what rounding left, on the largest field first.
void SumTo(uint64_t total, std::vector<uint64_t>& counts) {
  std::vector<size_t> order(counts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  if (sum < total) counts[order[0]] += total - sum;
  for (const size_t i : order) {
    const uint64_t cut = std::min(counts[i] - 1, sum > total ? sum - total : 0);
    counts[i] -= cut;
    sum -= cut;
  }
}

}  // namespace

std::vector<uint64_t> FieldCardinalities(uint64_t num_features, uint64_t fields) {
  CHECK(fields > 0 && num_features >= fields);
  const std::vector<double> model = ModelSizes(fields);
  const auto total = static_cast<double>(num_features);
  const auto sizes = total < Sum(model) ? Compressed(model, total) : Stretched(model, total);
  std::vector<uint64_t> counts;
  for (const double size : sizes)
    counts.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(size + 0.5)));
  SumTo(num_features, counts);
  return counts;
}

}  // namespace millrace::tools
