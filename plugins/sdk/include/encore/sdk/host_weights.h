// The host's weights as a WeightSource on the plugin's side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "encore/backend_abi.h"
#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/from_abi.h"
#include "encore/weights.h"

namespace encore::sdk {

// Forwards to the host's callbacks. Any thread. Lives as long as the model.
class HostWeights : public WeightSource {
 public:
  explicit HostWeights(const encore_weight_source* source)
      : source_(read_sized(source)),
        weights_(weights_from_abi(source_.weights, source_.weights_count, source_.weights_stride)) {
  }

  std::span<const WeightInfo> weights() const override { return weights_; }

  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    encore_error error;
    prepare_error(&error);
    const encore_status code = source_.read(source_.context, index, offset, destination.data(),
                                            destination.size(), &error);
    return status_from_abi(code, error);
  }

  const std::byte* map(size_t index) const override {
    return static_cast<const std::byte*>(source_.map(source_.context, index));
  }

  void release(size_t index) const override { source_.release(source_.context, index); }

 private:
  encore_weight_source source_;
  std::vector<WeightInfo> weights_;
};

}  // namespace encore::sdk
