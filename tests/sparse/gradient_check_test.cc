// The gradient points uphill: every entry against the finite difference of the loss, in the sign
// that training subtracts.
#include <gtest/gtest.h>

#include "sparse/kernels.h"
#include "tests/support/random_problem.h"

namespace millrace::sparse {
namespace {

// The loss in double precision, straight from its definition.
double Loss(const io::CsrBatch& batch, const std::vector<double>& weights) {
  double loss = 0;
  for (size_t r = 0; r < batch.rows(); ++r) {
    double m = 0;
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      m += (batch.values.empty() ? 1.0 : static_cast<double>(batch.values[i])) *
           weights[batch.cols[i]];
    }
    if (batch.labels[r] > 0) m = -m;
    const double one = std::max(m, 0.0) + std::log1p(std::exp(-std::abs(m)));
    loss += one * (batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[r]));
  }
  return loss;
}

TEST(GradientCheck, EqualsTheFiniteDifferenceOfTheLoss) {
  size_t checked = 0;
  for (uint64_t seed = 2; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    if (p.batch.nnz() > 10000) continue;
    const Kernels& kernels = NativeKernels();
    std::vector<float> margins(p.batch.rows()), gradient(p.batch.keys.size());
    kernels.margins(p.batch, p.weights, margins);
    kernels.loss_and_residuals(margins, p.batch.labels, p.batch.weights, margins);
    kernels.gradient(p.batch, margins, gradient);
    std::vector<double> weights(p.weights.begin(), p.weights.end());
    for (size_t k = 0; k < weights.size(); k += 1 + weights.size() / 20) {
      constexpr double kStep = 1e-4;
      const double w = weights[k];
      weights[k] = w + kStep;
      const double up = Loss(p.batch, weights);
      weights[k] = w - kStep;
      const double down = Loss(p.batch, weights);
      weights[k] = w;
      const double difference = (up - down) / (2 * kStep);
      ASSERT_NEAR(gradient[k], difference, 1e-3 + 1e-5 * std::abs(difference)) << "key " << k;
      ++checked;
    }
  }
  EXPECT_GT(checked, 500u);
}

}  // namespace
}  // namespace millrace::sparse
