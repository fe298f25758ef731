#include "encore/lowering/guarded_memory.h"

#include <algorithm>
#include <array>
#include <utility>

namespace encore::lowering {

Result<std::unique_ptr<GuardedMemory>> GuardedMemory::create(Device& device, GuardList& list,
                                                             std::string name, int64_t bytes,
                                                             bool guards) {
  std::unique_ptr<GuardedMemory> memory(new GuardedMemory(list, std::move(name), bytes, guards));
  const int64_t margin = guards ? 2 * kGuardBytes : 0;
  ENCORE_ASSIGN_OR_RETURN(memory->block_, device.allocate(bytes + margin, memory->name_));
  if (guards) {
    ENCORE_RETURN_IF_ERROR(device.fill(memory->block_->data(), kGuardValue, kGuardBytes));
    ENCORE_RETURN_IF_ERROR(
        device.fill(memory->block_->data() + kGuardBytes + bytes, kGuardValue, kGuardBytes));
  }
  list.add(memory.get());
  return memory;
}

GuardedMemory::~GuardedMemory() { list_.remove(this); }

std::byte* GuardedMemory::data() const { return block_->data() + (guards_ ? kGuardBytes : 0); }

Status GuardedMemory::check(Device& device) const {
  if (!guards_) return {};
  std::array<std::byte, 2 * kGuardBytes> found{};
  ENCORE_RETURN_IF_ERROR(device.copy_out(found.data(), block_->data(), kGuardBytes));
  ENCORE_RETURN_IF_ERROR(device.copy_out(found.data() + kGuardBytes, data() + bytes_, kGuardBytes));
  ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device.mark());
  ENCORE_RETURN_IF_ERROR(device.wait(mark, -1));
  const auto damaged = std::find_if(found.begin(), found.end(), [](std::byte value) {
    return value != static_cast<std::byte>(kGuardValue);
  });
  if (damaged == found.end()) return {};
  const int64_t index = damaged - found.begin();
  const int64_t offset = index < kGuardBytes ? index - kGuardBytes : bytes_ + index - kGuardBytes;
  return internal_error("guard bytes of buffer '" + name_ + "' are damaged at byte " +
                        std::to_string(offset) + " of " + std::to_string(bytes_));
}

void GuardList::add(const GuardedMemory* memory) {
  const std::lock_guard lock(mutex_);
  members_.push_back(memory);
}

void GuardList::remove(const GuardedMemory* memory) {
  const std::lock_guard lock(mutex_);
  members_.erase(std::remove(members_.begin(), members_.end(), memory), members_.end());
}

Status GuardList::check(Device& device) const {
  const std::lock_guard lock(mutex_);
  for (const GuardedMemory* memory : members_) ENCORE_RETURN_IF_ERROR(memory->check(device));
  return {};
}

}  // namespace encore::lowering
