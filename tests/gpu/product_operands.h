// Operands of a matrix product y = x * w^T, and what float64 makes of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpu_test_support.h"

namespace encore::gpu::testing {

struct Operands {
  int m, n, k;  // k a multiple of 8
  std::vector<uint16_t> w, x, y0, bias;
  std::vector<double> exact;  // [m, n]: x * w^T

  Operands(int m_, int n_, int k_)
      : m(m_),
        n(n_),
        k(k_),
        w(random_bf16(size(n, k), 1, 0.1F)),
        x(random_bf16(size(m, k), 2)),
        y0(random_bf16(size(m, n), 3)),
        bias(random_bf16(size(1, n), 4)) {
    std::vector<float> wf(w.size());
    std::vector<float> xf(x.size());
    for (size_t i = 0; i < w.size(); ++i) wf[i] = from_bf16(w[i]);
    for (size_t i = 0; i < x.size(); ++i) xf[i] = from_bf16(x[i]);
    exact.resize(size(m, n));
    for (int c = 0; c < n; ++c) {
      for (int r = 0; r < m; ++r) {
        exact[size(r, n) + static_cast<size_t>(c)] = dot(&xf[size(r, k)], &wf[size(c, k)]);
      }
    }
  }

  double sum(int row, int column) const {
    return exact[size(row, n) + static_cast<size_t>(column)];
  }

 private:
  static size_t size(int rows, int columns) {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns);
  }
  double dot(const float* a, const float* b) const {
    double sum[8] = {};
    for (int i = 0; i < k; i += 8) {
      for (int j = 0; j < 8; ++j) sum[j] += static_cast<double>(a[i + j]) * b[i + j];
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
};

// Made once a shape.
inline const Operands& operands(int m, int n, int k) {
  static std::map<std::array<int, 3>, std::unique_ptr<Operands>> made;
  auto& found = made[{m, n, k}];
  if (!found) found = std::make_unique<Operands>(m, n, k);
  return *found;
}

}  // namespace encore::gpu::testing
