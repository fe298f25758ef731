// What the GPU backends share: options, devices, models and their ranks, counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "blas.h"
#include "context_account.h"
#include "device.h"
#include "encore/backend.h"
#include "kernels/gpu/device_traits.h"
#include "memory.h"
#include "rank_peers.h"
#include "tracer.h"

namespace encore::gpu {

// The value of an option, or `fallback` if it was not given.
std::string option_value(const OptionValues& options, std::string_view key,
                         std::string_view fallback);

// A device as it was found; its number is the run-time's.
struct FoundDevice {
  std::string name;          // "NVIDIA H200"
  std::string bus_id;        // "0000:1b:00.0"
  std::string architecture;  // "sm_90a", "gfx90a"
  DeviceTraits traits;
  std::string unusable;  // why this build cannot use it; empty if it can
};

// A vendor's backend says what the private virtual functions ask.
class GpuBackend : public Backend {
 public:
  std::vector<OptionSchema> option_schema() const override;
  Status init(const OptionValues& options) final;
  void shutdown() final;

  int32_t device_count() const final { return static_cast<int32_t>(devices_.size()); }
  Result<DeviceInfo> device_info(int32_t device) const final;
  Result<DeviceMemory> device_memory(int32_t device) const final;
  Result<DeviceLimits> measure_limits(int32_t device) final;

  Status check_model(int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) const final;
  Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) final;

  std::vector<std::pair<std::string, int64_t>> stats() const override;
  Status selftest(int32_t device) final;

 protected:
  // `platform` is what messages call the devices: "CUDA", "ROCm".
  explicit GpuBackend(std::string platform) : platform_(std::move(platform)) {}

  MemoryAccount& account() { return account_; }
  // Whether kernels may start before the one before has ended; see Launch. They may not unless
  // said.
  void set_overlap(bool overlap) { overlap_ = overlap; }
  // Keeps what was fastest on a device; empty: nothing is kept. Known when options are read.
  const std::filesystem::path& tuning_folder() const { return tuning_folder_; }

 private:
  // Of options that are this vendor's alone.
  virtual Status read_options(const OptionValues& options) = 0;
  virtual Result<FoundDevice> describe(int32_t device) const = 0;
  // For the current device.
  virtual Result<std::unique_ptr<Blas>> make_blas(const FoundDevice& device) = 0;
  virtual Result<std::shared_ptr<RankPeers>> make_peers(std::vector<int32_t> ordinals) = 0;
  // Bytes in use on a device, by this process and others, told without making a context there.
  // Nothing if nobody tells.
  virtual std::optional<int64_t> bytes_in_use(const FoundDevice& device) const = 0;
  // Tells of kernels; null if nothing does. Lives as long as the process.
  virtual Tracer* tracer() = 0;

  Status find_devices();
  Status check_device(int32_t device) const;
  // Makes the device the thread's current one; the first time this makes the driver's context.
  Status select(int32_t device) const;
  Result<std::unique_ptr<Blas>> select_and_make_blas(int32_t device);
  Result<std::unique_ptr<GpuDevice>> make_device(int32_t device);
  // Rank r on device first + r.
  Result<std::unique_ptr<Model>> load_ranks(int32_t first, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options);

  std::string platform_;
  std::vector<FoundDevice> devices_;
  MemoryAccount account_;
  bool ready_ = false;
  bool overlap_ = false;
  int32_t load_threads_ = 0;
  std::filesystem::path tuning_folder_;
  mutable ContextAccount contexts_;
  std::atomic<int64_t> models_loaded_ = 0;
};

}  // namespace encore::gpu
