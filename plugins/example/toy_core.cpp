#include "toy_core.h"

#include <utility>

namespace acme {

encore::Status ToyCore::begin() {
  if (recording_) return encore::failed_precondition("a capture is open already");
  recording_ = true;
  program_.clear();
  num_calls_ = 0;
  return {};
}

encore::Result<std::unique_ptr<encore::lowering::DeviceGraph>> ToyCore::end() {
  if (!recording_) return encore::failed_precondition("no capture is open");
  recording_ = false;
  const auto bytes = static_cast<int64_t>(program_.size());
  ENCORE_ASSIGN_OR_RETURN(auto block, memory_->allocate(bytes, "program"));
  ENCORE_RETURN_IF_ERROR(memory_->copy_in(block->data(), program_.data(), bytes));
  return std::unique_ptr<encore::lowering::DeviceGraph>(
      std::make_unique<ToyProgram>(std::move(block), num_calls_));
}

void ToyCore::launch(const ToyProgram& program) {
  const std::byte* next = memory_->resolve(program.address());
  for (int32_t call = 0; call < program.num_nodes(); ++call) {
    const Entry& entry = *reinterpret_cast<const Entry*>(next);
    entry.run(entry, worker_);
    next += sizeof(Entry) + entry.args_bytes;
  }
}

}  // namespace acme
