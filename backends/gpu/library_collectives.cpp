#include "library_collectives.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "gpu_status.h"

namespace encore::gpu {
namespace {

using lowering::Matrix;
using lowering::Rows;

// Every size class for which the library may choose another algorithm, up to a step of 8192 tokens.
constexpr int64_t kWarmUpBytes[] = {int64_t{256} << 10, int64_t{1} << 20, int64_t{4} << 20,
                                    int64_t{16} << 20, int64_t{64} << 20};
// Calls that are handed to the library together.
constexpr int32_t kGroupSize = 64;

}  // namespace

Status LibraryCollectives::check_not_aborted() const {
  return peers_->aborted() ? cancelled("the other ranks gave up") : Status();
}

Status LibraryCollectives::sum(void* x, size_t count) {
  ENCORE_RETURN_IF_ERROR(check_not_aborted());
  const NcclFunctions& nccl = peers_->nccl();
  return nccl_status(nccl,
                     nccl.all_reduce(x, x, count, ncclBfloat16, ncclSum, communicator_, stream_),
                     "summing over ranks");
}

Status LibraryCollectives::gather(const float* part, float* whole, size_t count) {
  const NcclFunctions& nccl = peers_->nccl();
  return nccl_status(nccl, nccl.all_gather(part, whole, count, ncclFloat32, communicator_, stream_),
                     "gathering logits from the ranks");
}

Status LibraryCollectives::all_reduce(Matrix x, Rows) {
  return sum(x.data, static_cast<size_t>(int64_t{x.rows} * x.columns));
}

Status LibraryCollectives::all_reduce_norm(Matrix, Rows, const void*, float, Matrix) {
  return unimplemented("sum and norm in one: the library sums alone");
}

// The library puts whole parts one after the other; a matrix has them side by side in each row. So
// each row is a call of its own.
Status LibraryCollectives::all_gather(Matrix part, Rows, Matrix whole) {
  ENCORE_RETURN_IF_ERROR(check_not_aborted());
  const NcclFunctions& nccl = peers_->nccl();
  const auto* from = static_cast<const float*>(part.data);
  auto* to = static_cast<float*>(whole.data);
  for (int32_t first = 0; first < part.rows; first += kGroupSize) {
    ENCORE_RETURN_IF_ERROR(nccl_status(nccl, nccl.group_start(), "gathering logits"));
    Status status;
    for (int32_t row = first; row < std::min(first + kGroupSize, part.rows) && status.ok(); ++row) {
      status = gather(from + int64_t{row} * part.columns, to + int64_t{row} * whole.columns,
                      static_cast<size_t>(part.columns));
    }
    const Status ended = nccl_status(nccl, nccl.group_end(), "gathering logits from the ranks");
    ENCORE_RETURN_IF_ERROR(status);
    ENCORE_RETURN_IF_ERROR(ended);
  }
  return {};
}

Status LibraryCollectives::health() {
  ENCORE_RETURN_IF_ERROR(check_not_aborted());
  ncclResult_t state = ncclSuccess;
  const NcclFunctions& nccl = peers_->nccl();
  ENCORE_RETURN_IF_ERROR(nccl_status(nccl, nccl.async_error(communicator_, &state),
                                     std::string("asking ") + nccl.name + " for errors"));
  return nccl_status(nccl, state, "a collective");
}

Status LibraryCollectives::warm_up() {
  const std::string what = std::string("warming ") + peers_->nccl().name + " up";
  void* buffer = nullptr;
  const auto largest = static_cast<size_t>(*std::rbegin(kWarmUpBytes));
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuMallocAsync(&buffer, largest, stream_), what));
  Status status = gpu_status(gpuMemsetAsync(buffer, 0, largest, stream_), what);
  auto* const values = static_cast<float*>(buffer);
  for (const int64_t bytes : kWarmUpBytes) {
    if (status.ok()) status = sum(buffer, static_cast<size_t>(bytes / 2));
    const auto part = static_cast<size_t>(bytes / 4 / peers_->num_ranks());
    if (status.ok() && library_gathers()) status = gather(values + rank_ * part, values, part);
  }
  if (status.ok()) status = gpu_status(gpuStreamSynchronize(stream_), what);
  static_cast<void>(gpuFreeAsync(buffer, stream_));
  return status;
}

}  // namespace encore::gpu
