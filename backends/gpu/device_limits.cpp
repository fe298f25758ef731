#include "device_limits.h"

#include <algorithm>
#include <vector>

#include "gpu_status.h"
#include "gpu_stream.h"
#include "kernels/gpu/read_memory.h"
#include "stream_timer.h"

namespace encore::gpu {
namespace {

constexpr int64_t kReadBytes = int64_t{2} << 30;  // far past any cache
constexpr int32_t kSize = 8192;                   // of a square product
constexpr int kRounds = 9;
constexpr size_t kNoiseElements = (size_t{4} << 20U) + 4104;  // in no step with the rows

// The best of some rounds: limits are what can be reached.
template <typename Enqueue>
Result<double> best_us(StreamTimer& timer, gpuStream_t stream, const Enqueue& enqueue) {
  ENCORE_RETURN_IF_ERROR(enqueue(0));
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    ENCORE_ASSIGN_OR_RETURN(const float us, timer.measure_us(stream, 2, enqueue));
    best = std::min(best, static_cast<double>(us));
  }
  return best;
}

// bf16 numbers from -1 to 1 with random bits: matrix units take less power, and so run faster, on
// numbers that are all alike.
Status fill_with_noise(std::byte* data, int64_t bytes, gpuStream_t stream) {
  std::vector<uint16_t> noise(kNoiseElements);
  uint32_t state = 1;
  for (uint16_t& value : noise) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<uint16_t>(0x3F00U | ((state >> 16U) & 0x807FU));
  }
  auto done = static_cast<int64_t>(noise.size() * sizeof(uint16_t));
  ENCORE_RETURN_IF_ERROR(gpu_status(
      gpuMemcpyAsync(data, noise.data(), static_cast<size_t>(done), gpuMemcpyHostToDevice, stream),
      "copying noise"));
  for (; done < bytes; done *= 2) {
    ENCORE_RETURN_IF_ERROR(gpu_status(
        gpuMemcpyAsync(data + done, data, static_cast<size_t>(std::min(done, bytes - done)),
                       gpuMemcpyDeviceToDevice, stream),
        "filling measured memory"));
  }
  return gpu_status(gpuStreamSynchronize(stream), "filling measured memory");
}

}  // namespace

Result<DeviceLimits> measure_limits(Blas& blas, int32_t num_processors, MemoryAccount& account) {
  ENCORE_ASSIGN_OR_RETURN(const auto stream, GpuStream::create());
  ENCORE_ASSIGN_OR_RETURN(const auto timer, StreamTimer::create());
  constexpr int64_t kMatrixBytes = int64_t{kSize} * kSize * 2;
  ENCORE_ASSIGN_OR_RETURN(
      const auto memory,
      allocate_device(account, std::max(kReadBytes, 3 * kMatrixBytes), "measured memory"));
  ENCORE_ASSIGN_OR_RETURN(
      const auto workspace,
      allocate_device(account, blas.workspace_bytes(), "the BLAS workspace of a measurement"));
  blas.set_workspace(workspace->data());
  std::byte* data = memory->data();
  ENCORE_RETURN_IF_ERROR(fill_with_noise(data, memory->bytes(), stream->get()));

  DeviceLimits limits;
  const auto read = [&](int) {
    auto* sink = reinterpret_cast<uint32_t*>(workspace->data());
    return gpu_status(static_cast<gpuError_t>(read_memory(data, kReadBytes, num_processors, sink,
                                                          {stream->get(), false})),
                      "reading memory");
  };
  ENCORE_ASSIGN_OR_RETURN(const double read_us, best_us(*timer, stream->get(), read));
  limits.read_bytes_per_s = static_cast<double>(kReadBytes) / read_us * 1e6;

  const ProductShape shape{kSize, kSize, kSize, Element::kBF16, false, false};
  const ProductOperands operands{data, data + kMatrixBytes, nullptr, data + 2 * kMatrixBytes};
  ENCORE_RETURN_IF_ERROR(blas.tune(shape, operands, {}, stream->get()));
  const auto multiply = [&](int) { return blas.multiply(shape, operands, stream->get()); };
  ENCORE_ASSIGN_OR_RETURN(const double product_us, best_us(*timer, stream->get(), multiply));
  limits.matmul_ops_per_s = 2.0 * kSize * kSize * kSize / product_us * 1e6;
  return limits;
}

}  // namespace encore::gpu
