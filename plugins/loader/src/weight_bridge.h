// The host's WeightSource behind the callbacks that a plugin reads weights through.
#pragma once

#include <vector>

#include "encore/backend_abi.h"
#include "encore/weights.h"

namespace encore {

// Borrows the source. A plugin may call back from any of its threads until the model is freed.
// Checks every index; nothing that the source throws reaches the plugin.
class WeightBridge {
 public:
  explicit WeightBridge(const WeightSource& source);
  WeightBridge(const WeightBridge&) = delete;
  WeightBridge& operator=(const WeightBridge&) = delete;

  const encore_weight_source* abi() const { return &abi_; }

 private:
  static encore_status read(void* context, uint64_t index, int64_t offset, void* destination,
                            uint64_t size, encore_error* error) noexcept;
  static const void* map(void* context, uint64_t index) noexcept;
  static void release(void* context, uint64_t index) noexcept;

  const WeightSource& source_;
  std::vector<encore_weight_info> infos_;
  encore_weight_source abi_;
};

}  // namespace encore
