#include "device_limits.h"

#include <algorithm>

#include "gpu_status.h"
#include "gpu_stream.h"
#include "kernels/gpu/read_memory.h"
#include "noise.h"
#include "stream_timer.h"

namespace encore::gpu {
namespace {

constexpr int64_t kReadBytes = int64_t{2} << 30;  // far past any cache
constexpr int32_t kSize = 8192;                   // of a square product
constexpr int kRounds = 9;

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

}  // namespace

Result<DeviceLimits> measure_limits(Blas& blas, const DeviceTraits& device,
                                    MemoryAccount& account) {
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
    return gpu_status(
        static_cast<gpuError_t>(read_memory(data, kReadBytes, device.num_processors, sink,
                                            {stream->get(), false, device.lanes})),
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
