#include "weight_bridge.h"

#include <cstddef>
#include <string>

#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "to_abi.h"

namespace encore {

WeightBridge::WeightBridge(const WeightSource& source)
    : source_(source),
      infos_(weights_to_abi(source.weights())),
      abi_{.struct_size = sizeof(encore_weight_source),
           .weights = infos_.data(),
           .weights_count = infos_.size(),
           .weights_stride = sizeof(encore_weight_info),
           .context = this,
           .read = read,
           .map = map,
           .release = release} {}

encore_status WeightBridge::read(void* context, uint64_t index, int64_t offset, void* destination,
                                 uint64_t size, encore_error* error) noexcept {
  const auto& self = *static_cast<const WeightBridge*>(context);
  return sdk::guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    if (index >= self.infos_.size()) {
      return invalid_argument("weight index is " + std::to_string(index) + "; the model has " +
                              std::to_string(self.infos_.size()) + " weights");
    }
    if (destination == nullptr && size > 0) return invalid_argument("the destination is null");
    return self.source_.read(index, offset,
                             sdk::span_of(static_cast<std::byte*>(destination), size));
  });
}

const void* WeightBridge::map(void* context, uint64_t index) noexcept {
  const auto& self = *static_cast<const WeightBridge*>(context);
  try {
    return index < self.infos_.size() ? self.source_.map(index) : nullptr;
  } catch (...) {  // "cannot be mapped": the plugin reads instead, and sees the error there
    return nullptr;
  }
}

void WeightBridge::release(void* context, uint64_t index) noexcept {
  const auto& self = *static_cast<const WeightBridge*>(context);
  sdk::guarded_void([&] {
    if (index < self.infos_.size()) self.source_.release(index);
  });
}

}  // namespace encore
