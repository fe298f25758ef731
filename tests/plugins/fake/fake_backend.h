// A complete backend for tests of the boundary and the engine, written with the SDK.
//
// Its "model" is a hash: the logits of a row depend on every token of the request up to that row
// and on nothing else, and they are read back through the paged KV cache, which stores token ids.
// So wrong pages, lengths or rows change the tokens, as with a real model. Biases and greedy
// sampling work; every request is sampled greedily whatever its temperature, without penalties.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"

namespace encore {

// What init() was told, for the parts that act on it.
struct FakeOptions {
  std::string throw_in = "none";  // the function that throws, and where
  // The function that fails with kOutOfMemory; "wait" says that steps run past their limit, and
  // runners are then not let go for a minute.
  std::string fail_in = "none";
  bool damage_guards = false;
  int32_t skip_bucket = 0;   // this bucket is "out of memory"
  bool async = false;        // kCapabilityAsync
  int64_t memory_bytes = 0;  // of a device with memory of its own; 0: it has none
};

// What is allocated on the fake device.
struct FakeMemory {
  static constexpr int64_t kContextBytes = 1000;  // "driver"
  static constexpr int64_t kOthersBytes = 5000;   // another process's

  int64_t total_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t graph_bytes = 0;  // the driver's, for executables

  int64_t used_bytes() const {
    return allocated_bytes + graph_bytes + kContextBytes + kOthersBytes;
  }
};

class FakeBackend : public Backend {
 public:
  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;
  Status init(const OptionValues& options) override;
  void shutdown() override;
  int32_t device_count() const override { return 2; }
  Result<DeviceInfo> device_info(int32_t device) const override;
  Result<DeviceMemory> device_memory(int32_t device) const override;
  Result<DeviceLimits> measure_limits(int32_t device) override;
  Status check_model(int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) const override;
  Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override;
  std::vector<std::pair<std::string, int64_t>> stats() const override;
  Status selftest(int32_t device) override;

 private:
  FakeOptions options_;
  std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
  int64_t num_inits_ = 0;
  int64_t num_shutdowns_ = 0;
};

// Logit of `token` after a request's tokens whose running hash is `state`.
float fake_logit(uint64_t state, int64_t token);

// The running hash after one more token; starts from 0.
uint64_t fake_hash(uint64_t state, int32_t token);

}  // namespace encore
