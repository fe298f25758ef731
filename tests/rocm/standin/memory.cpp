#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "graph.h"
#include "misuse.h"
#include "settings.h"

namespace encore::standin {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlign = 256;  // of device memory
constexpr int kPoison = 0xff;
constexpr std::byte kGuard{0xa5};
constexpr size_t kMaxFreed = 8192;  // mappings that are kept

using Allocations = std::map<const std::byte*, Allocation>;  // by address
Allocations& live = *new Allocations;  // never destroyed: the report comes last
Allocations& freed = *new Allocations;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Where guard bytes lie: before the data and after it.
std::byte* guards_begin(const Allocation& memory) { return memory.mapping + kPage; }
std::byte* guards_end(const Allocation& memory) {
  return memory.mapping + memory.mapping_bytes - kPage;
}

void note_overwritten_guards(const Allocation& memory) {
  const auto whole = [](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [](std::byte byte) { return byte == kGuard; });
  };
  const std::string bytes = std::to_string(memory.bytes) + " bytes";
  if (!whole(guards_begin(memory), memory.data)) note_misuse("a write before " + bytes);
  if (!whole(memory.data + memory.bytes, guards_end(memory))) {
    note_misuse("a write past the end of " + bytes);
  }
}

const Allocation* containing(const Allocations& all, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  auto next = all.upper_bound(at);
  if (next == all.begin()) return nullptr;
  const Allocation& memory = std::prev(next)->second;
  return at < memory.mapping + memory.mapping_bytes ? &memory : nullptr;
}

void keep_freed(const Allocation& memory) {
  freed.emplace(memory.data, memory);
  if (freed.size() <= kMaxFreed) return;
  munmap(freed.begin()->second.mapping, freed.begin()->second.mapping_bytes);
  freed.erase(freed.begin());
}

// ---- Faults ----

thread_local const char* running = nullptr;

// As the kernel keeps it: what the C library restores is not quite what was there.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void* restorer;
  uint64_t mask;
};
thread_local KernelAction previous_action;

void exchange_action(const KernelAction* action, KernelAction* previous) {
  syscall(SYS_rt_sigaction, SIGSEGV, action, previous, sizeof(KernelAction::mask));
}

void on_fault(int, siginfo_t* info, void*) {
  std::array<char, 512> text{};
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  const Allocation* memory = containing(live, at);
  const char* state = "allocated";
  if (memory == nullptr) {
    memory = containing(freed, at);
    state = "freed";
  }
  int length = 0;
  if (memory != nullptr) {
    length =
        std::snprintf(text.data(), text.size(),
                      "stand-in: %s touches %p: byte %td of %zu bytes of %s memory that are %s\n",
                      running, static_cast<const void*>(at), at - memory->data, memory->bytes,
                      memory->kind == Kind::kDevice ? "device" : "page-locked", state);
  } else {
    length = std::snprintf(text.data(), text.size(),
                           "stand-in: %s touches %p, which is no memory of a device\n", running,
                           static_cast<const void*>(at));
  }
  static_cast<void>(!write(STDERR_FILENO, text.data(), static_cast<size_t>(length)));
  exchange_action(&previous_action, nullptr);  // the access faults again, as without us
}

}  // namespace

hipError_t allocate(Kind kind, int device, size_t bytes, void** data) {
  *data = nullptr;
  if (kind == Kind::kDevice && bytes > free_bytes(device)) return hipErrorOutOfMemory;
  Allocation memory;
  memory.bytes = bytes;
  memory.kind = kind;
  memory.device = device;
  memory.mapping_bytes = round_up(bytes, kPage) + 2 * kPage;
  void* mapping = mmap(nullptr, memory.mapping_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return hipErrorOutOfMemory;
  memory.mapping = static_cast<std::byte*>(mapping);
  memory.data = guards_end(memory) - round_up(bytes, kAlign);
  if (guards_end(memory) > guards_begin(memory)) {
    const auto inside = static_cast<size_t>(guards_end(memory) - guards_begin(memory));
    if (mprotect(guards_begin(memory), inside, PROT_READ | PROT_WRITE) != 0) {
      munmap(mapping, memory.mapping_bytes);
      return hipErrorOutOfMemory;
    }
  }
  std::fill(guards_begin(memory), memory.data, kGuard);
  std::fill(memory.data + bytes, guards_end(memory), kGuard);
  if (bytes > 0) std::memset(memory.data, kPoison, bytes);
  live.emplace(memory.data, memory);
  *data = memory.data;
  return hipSuccess;
}

hipError_t release(Kind kind, void* data) {
  const auto found = live.find(static_cast<std::byte*>(data));
  if (found == live.end() || found->second.kind != kind) {
    note_misuse(freed.count(static_cast<std::byte*>(data)) > 0 ? "memory is freed twice"
                                                               : "what is freed was not allocated");
    return hipErrorInvalidValue;
  }
  const Allocation memory = found->second;
  note_overwritten_guards(memory);
  live.erase(found);
  madvise(memory.mapping, memory.mapping_bytes, MADV_DONTNEED);
  mprotect(memory.mapping, memory.mapping_bytes, PROT_NONE);
  keep_freed(memory);
  return hipSuccess;
}

const Allocation* allocation_of(const void* address) { return containing(live, address); }

std::string fault_of(const void* address, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(address);
  if (at == nullptr && bytes > 0) return "null";
  if (containing(freed, address) != nullptr) return "memory that has been freed";
  const Allocation* memory = containing(live, address);
  if (memory == nullptr) return {};
  if (at >= memory->data && at + bytes <= memory->data + memory->bytes) return {};
  return "bytes " + std::to_string(at - memory->data) + " to " +
         std::to_string(at - memory->data + static_cast<std::ptrdiff_t>(bytes)) + " of " +
         std::to_string(memory->bytes);
}

uint64_t free_bytes(int device) {
  uint64_t used = settings().others_bytes + executable_bytes(device);
  for (const auto& [address, memory] : live) {
    if (memory.kind == Kind::kDevice && memory.device == device) used += memory.bytes;
  }
  return used < settings().memory_bytes ? settings().memory_bytes - used : 0;
}

Holdings holdings(Kind kind) {
  Holdings result;
  for (const auto& [address, memory] : live) {
    if (memory.kind != kind) continue;
    ++result.count;
    result.bytes += static_cast<int64_t>(memory.bytes);
  }
  return result;
}

void check_guards() {
  for (const auto& [address, memory] : live) note_overwritten_guards(memory);
}

FaultMessage::FaultMessage(const char* what) {
  running = what;
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO;
  exchange_action(nullptr, &previous_action);
  sigaction(SIGSEGV, &action, nullptr);
}

FaultMessage::~FaultMessage() { exchange_action(&previous_action, nullptr); }

}  // namespace encore::standin
