// The toy's one core: it runs a kernel at once, or notes it down for later. That is capture.
//
// A kernel is a function of plain arguments. While a program is being recorded, call() appends the
// function and a copy of its arguments, addresses and sizes already resolved, to a list; end()
// puts the list into device memory; launch() walks it. Nothing is decided or allocated in between:
// what may differ from step to step, such as the number of live rows, the kernels themselves read
// from device memory.
//
// A device with a compiler of its own would compile the list in end(). Stream capture, as in CUDA,
// does the same with the driver keeping the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "encore/lowering/device.h"
#include "kernels/cpu/worker.h"
#include "toy_memory.h"

namespace acme {

namespace kernels = encore::kernels;

template <typename Args>
using Kernel = void (*)(const Args&, const kernels::Worker&);

// A recorded list of calls, in device memory.
class ToyProgram final : public lowering::DeviceGraph {
 public:
  ToyProgram(std::unique_ptr<lowering::DeviceMemoryBlock> block, int32_t num_calls)
      : block_(std::move(block)), num_calls_(num_calls) {}
  const std::byte* address() const { return block_->data(); }
  int64_t executable_bytes() const override { return block_->bytes(); }
  int32_t num_nodes() const override { return num_calls_; }

 private:
  std::unique_ptr<lowering::DeviceMemoryBlock> block_;
  int32_t num_calls_;
};

// Used by one thread at a time.
class ToyCore {
 public:
  explicit ToyCore(std::shared_ptr<ToyMemory> memory) : memory_(std::move(memory)) {}

  ToyMemory& memory() { return *memory_; }
  // Where kernels keep what outlives no call. A device address.
  void set_scratch(std::byte* address, int64_t bytes) {
    worker_.scratch = memory_->resolve(address);
    worker_.scratch_bytes = static_cast<size_t>(bytes);
  }

  // Runs the kernel, or records it.
  template <typename Args>
  void call(Kernel<Args> kernel, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied as bytes");
    if (!recording_) return kernel(args, worker_);
    const Entry entry{run_entry<Args>, reinterpret_cast<void (*)()>(kernel), padded(sizeof(Args))};
    append(&entry, sizeof(entry));
    append(&args, sizeof(args));
    ++num_calls_;
  }

  // Errors: kFailedPrecondition if a program is being recorded already.
  Status begin() {
    if (recording_) return encore::failed_precondition("a capture is open already");
    recording_ = true;
    program_.clear();
    num_calls_ = 0;
    return {};
  }
  // Errors: kFailedPrecondition if none is; kOutOfMemory. None is being recorded afterwards.
  Result<std::unique_ptr<lowering::DeviceGraph>> end() {
    if (!recording_) return encore::failed_precondition("no capture is open");
    recording_ = false;
    const auto bytes = static_cast<int64_t>(program_.size());
    ENCORE_ASSIGN_OR_RETURN(auto block, memory_->allocate(bytes, "program"));
    ENCORE_RETURN_IF_ERROR(memory_->copy_in(block->data(), program_.data(), bytes));
    return std::unique_ptr<lowering::DeviceGraph>(
        std::make_unique<ToyProgram>(std::move(block), num_calls_));
  }

  void launch(const ToyProgram& program) {
    const std::byte* next = memory_->resolve(program.address());
    for (int32_t call = 0; call < program.num_nodes(); ++call) {
      const Entry& entry = *reinterpret_cast<const Entry*>(next);
      entry.run(entry, worker_);
      next += sizeof(Entry) + entry.args_bytes;
    }
  }

 private:
  // A call in a program; its arguments follow.
  struct alignas(16) Entry {
    void (*run)(const Entry& entry, const kernels::Worker& worker);
    void (*kernel)();
    size_t args_bytes;
  };
  template <typename Args>
  static void run_entry(const Entry& entry, const kernels::Worker& worker) {
    const auto kernel = reinterpret_cast<Kernel<Args>>(entry.kernel);
    kernel(*reinterpret_cast<const Args*>(&entry + 1), worker);
  }
  static constexpr size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }
  void append(const void* data, size_t bytes) {
    const size_t at = program_.size();
    program_.resize(at + padded(bytes));
    std::memcpy(program_.data() + at, data, bytes);
  }

  std::shared_ptr<ToyMemory> memory_;
  kernels::Worker worker_;  // a team of one
  bool recording_ = false;
  std::vector<std::byte> program_;  // being recorded
  int32_t num_calls_ = 0;
};

}  // namespace acme
