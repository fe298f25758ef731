#include "selftest.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "gpu_status.h"
#include "gpu_stream.h"
#include "kernels/gpu/norm.h"

namespace encore::gpu {
namespace {

constexpr int kRows = 3;
constexpr int kColumns = 64;
constexpr float kTolerance = 0.02F;  // a few bf16 roundings of values near 1

// Values that bf16 holds exactly.
uint16_t bf16_bits(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U);
}
float value_of(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16U); }

using Rows = std::array<uint16_t, kRows * kColumns>;

Status compare(const Rows& found, const std::array<float, kRows * kColumns>& expected,
               const char* what) {
  for (size_t i = 0; i < found.size(); ++i) {
    const float value = value_of(found[i]);
    if (std::fabs(value - expected[i]) <= kTolerance * std::fmax(1.0F, std::fabs(expected[i]))) {
      continue;
    }
    return internal_error(std::string("the self-test's ") + what + " gives " +
                          std::to_string(value) + " at element " + std::to_string(i) +
                          "; expected " + std::to_string(expected[i]));
  }
  return {};
}

}  // namespace

// x is norm-ed with weight 1, then multiplied by twice the identity.
Status selftest(Blas& blas, const DeviceTraits& device, MemoryAccount& account) {
  ENCORE_ASSIGN_OR_RETURN(const auto stream, GpuStream::create());
  constexpr int64_t kRowBytes = sizeof(Rows);
  constexpr int64_t kMatrixBytes = int64_t{kColumns} * kColumns * 2;
  ENCORE_ASSIGN_OR_RETURN(const auto memory,
                          allocate_device(account, 4 * kMatrixBytes + 3 * kRowBytes, "self-test"));
  ENCORE_ASSIGN_OR_RETURN(const auto workspace,
                          allocate_device(account, blas.workspace_bytes(), "self-test"));
  blas.set_workspace(workspace->data());
  std::byte* w = memory->data();
  std::byte* ones = w + kMatrixBytes;
  std::byte* x = ones + kMatrixBytes;
  std::byte* normed = x + kMatrixBytes;
  std::byte* y = normed + kRowBytes;
  std::byte* live = y + kRowBytes;

  Rows host_x{};
  std::array<uint16_t, kColumns * kColumns> host_w{};
  std::array<uint16_t, kColumns> host_ones{};
  for (size_t i = 0; i < host_x.size(); ++i) {
    host_x[i] = bf16_bits(static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 4.0F);
  }
  for (size_t i = 0; i < kColumns; ++i) {
    host_w[i * kColumns + i] = bf16_bits(2.0F);
    host_ones[i] = bf16_bits(1.0F);
  }
  const int32_t rows = kRows;
  const auto put = [&](std::byte* to, const void* from, size_t bytes) {
    return gpu_status(gpuMemcpyAsync(to, from, bytes, gpuMemcpyHostToDevice, stream->get()),
                      "copying the self-test's input");
  };
  ENCORE_RETURN_IF_ERROR(put(w, host_w.data(), sizeof(host_w)));
  ENCORE_RETURN_IF_ERROR(put(ones, host_ones.data(), sizeof(host_ones)));
  ENCORE_RETURN_IF_ERROR(put(x, host_x.data(), sizeof(host_x)));
  ENCORE_RETURN_IF_ERROR(put(live, &rows, sizeof(rows)));

  RmsNormArgs norm;
  norm.rows = {reinterpret_cast<const int32_t*>(live), kRows};
  norm.x = x;
  norm.x_stride = kColumns;
  norm.weight = ones;
  norm.y = normed;
  norm.y_stride = kColumns;
  norm.hidden_size = kColumns;
  ENCORE_RETURN_IF_ERROR(
      gpu_status(static_cast<gpuError_t>(rms_norm(norm, {stream->get(), false, device.lanes})),
                 "launching rms_norm"));
  const ProductShape shape{kRows, kColumns, kColumns, Element::kBF16, false, false};
  ENCORE_RETURN_IF_ERROR(blas.multiply(shape, {normed, w, nullptr, y}, stream->get()));

  Rows found_normed{};
  Rows found_y{};
  const auto get = [&](Rows& to, const std::byte* from) {
    return gpu_status(
        gpuMemcpyAsync(to.data(), from, sizeof(Rows), gpuMemcpyDeviceToHost, stream->get()),
        "copying the self-test's result");
  };
  ENCORE_RETURN_IF_ERROR(get(found_normed, normed));
  ENCORE_RETURN_IF_ERROR(get(found_y, y));
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamSynchronize(stream->get()), "running the self-test"));

  std::array<float, kRows * kColumns> expected_normed{};
  std::array<float, kRows * kColumns> expected_y{};
  for (size_t row = 0; row < kRows; ++row) {
    float sum = 0.0F;
    for (size_t i = 0; i < kColumns; ++i) {
      const float value = value_of(host_x[row * kColumns + i]);
      sum += value * value;
    }
    for (size_t i = 0; i < kColumns; ++i) {
      const size_t at = row * kColumns + i;
      expected_normed[at] = value_of(host_x[at]) / std::sqrt(sum / kColumns);
      expected_y[at] = 2.0F * expected_normed[at];
    }
  }
  ENCORE_RETURN_IF_ERROR(compare(found_normed, expected_normed, "norm"));
  return compare(found_y, expected_y, "product");
}

}  // namespace encore::gpu
