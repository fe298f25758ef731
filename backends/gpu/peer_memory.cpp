#include "peer_memory.h"

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "gpu_status.h"
#include "gpu_stream.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

// Contents must be there before any rank's first kernel, on whatever stream that runs.
Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_zeros(MemoryAccount& account,
                                                                    int64_t bytes,
                                                                    const std::string& name) {
  ENCORE_ASSIGN_OR_RETURN(auto block, allocate_device(account, bytes, name));
  // A stream of its own: other threads may be capturing on this device.
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<GpuStream> stream, GpuStream::create());
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuMemsetAsync(block->data(), 0, static_cast<size_t>(bytes), stream->get()),
                 "clearing " + name));
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamSynchronize(stream->get()), "clearing " + name));
  return block;
}

}  // namespace

Result<std::unique_ptr<PeerMemory>> PeerMemory::create(std::vector<int32_t> ordinals,
                                                       int64_t max_bytes, MemoryAccount& account) {
  std::unique_ptr<PeerMemory> memory(new PeerMemory(std::move(ordinals), max_bytes));
  const std::vector<int32_t>& devices = memory->ordinals_;
  const auto num_ranks = static_cast<int32_t>(devices.size());
  if (num_ranks > kMaxPeers) {
    return unimplemented(std::to_string(num_ranks) + " ranks were asked for; up to " +
                         std::to_string(kMaxPeers) + " GPUs can share a model");
  }
  ENCORE_ASSIGN_OR_RETURN(memory->abort_,
                          allocate_page_locked(account, sizeof(uint32_t), "the abort word"));
  *memory->abort_word() = 0;
  for (const int32_t device : devices) {
    for (const int32_t other : devices) ENCORE_RETURN_IF_ERROR(memory->reach(device, other));
    ENCORE_RETURN_IF_ERROR(gpu_status(gpuSetDevice(device), "selecting the device"));
    ENCORE_ASSIGN_OR_RETURN(
        memory->inboxes_.emplace_back(),
        allocate_zeros(account, inbox_bytes(num_ranks, max_bytes), "peer inbox"));
    ENCORE_ASSIGN_OR_RETURN(
        memory->counters_.emplace_back(),
        allocate_zeros(account, kNumPeerCounters * sizeof(uint32_t), "peer counters"));
  }
  return memory;
}

Status PeerMemory::reach(int32_t from, int32_t to) const {
  if (from == to) return {};
  int can = 0;
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuDeviceCanAccessPeer(&can, from, to), "asking for peer access"));
  if (can == 0) {
    return unavailable("device " + std::to_string(from) + " cannot reach the memory of device " +
                       std::to_string(to) + "; ranks of a model need that");
  }
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuSetDevice(from), "selecting the device"));
  const gpuError_t error = gpuDeviceEnablePeerAccess(to, 0);
  if (error != gpuErrorPeerAccessAlreadyEnabled) return gpu_status(error, "enabling peer access");
  static_cast<void>(gpuGetLastError());  // as it should be
  return {};
}

uint32_t* PeerMemory::abort_word() const { return reinterpret_cast<uint32_t*>(abort_->data()); }

Peers PeerMemory::peers(int32_t rank) const {
  Peers peers;
  peers.rank = rank;
  peers.num_ranks = static_cast<int32_t>(inboxes_.size());
  peers.max_bytes = max_bytes_;
  for (size_t i = 0; i < inboxes_.size(); ++i) peers.inbox[i] = inboxes_[i]->data();
  peers.counters = reinterpret_cast<uint32_t*>(counters_[static_cast<size_t>(rank)]->data());
  peers.abort = abort_word();
  return peers;
}

void PeerMemory::abort() {
  std::atomic_ref<uint32_t>(*abort_word()).store(1, std::memory_order_release);
}

}  // namespace encore::gpu
