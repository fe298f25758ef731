// The plugin: what the host asks of acme.toy before and around models, and its one exported
// function. Models, KV caches and runners are the lowering's, over a ToyDevice.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/lowering/lowered_model.h"
#include "encore/lowering/model_check.h"
#include "encore/sdk/backend_plugin.h"
#include "kernels/cpu/norm.h"
#include "toy_core.h"
#include "toy_device.h"
#include "toy_memory.h"

namespace acme {
namespace {

using encore::DType;

constexpr std::array kWeightTypes = {DType::kF32,  DType::kF16,  DType::kBF16,
                                     DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                     DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

class ToyBackend final : public encore::Backend {
 public:
  encore::BackendIdentity identity() const override {
    return {"acme.toy", "Acme", ACME_TOY_VERSION, __VERSION__};
  }

  // The host checks values against this before init(), which gets every key once.
  std::vector<encore::OptionSchema> option_schema() const override {
    return {{"memory_mb",
             encore::OptionType::kInt,
             "2048",
             16,
             1 << 20,
             {},
             "Memory of the toy, in MiB. It takes room as it is used."}};
  }

  // Usable here? A real device looks for its driver, and says in `reason` what is missing.
  encore::ProbeResult probe() const override { return {true, ""}; }

  Status init(const encore::OptionValues& options) override {
    if (memory_ != nullptr) return encore::failed_precondition("acme.toy is initialised already");
    int64_t megabytes = 0;
    for (const auto& [key, value] : options) {
      if (key == "memory_mb") std::from_chars(value.data(), value.data() + value.size(), megabytes);
    }
    ENCORE_ASSIGN_OR_RETURN(memory_, ToyMemory::create(megabytes << 20));
    return {};
  }

  void shutdown() override { memory_.reset(); }

  int32_t device_count() const override { return 1; }

  Result<encore::DeviceInfo> device_info(int32_t device) const override {
    ENCORE_RETURN_IF_ERROR(check_ready(device));
    return encore::DeviceInfo{"acme.toy:0", "Acme Toy", "toy1",
                              encore::kCapabilityEager | encore::kCapabilityPrefillFull |
                                  encore::kCapabilityPrefillBreakable |
                                  encore::kCapabilityDecodeGraph | encore::kCapabilityDeviceMemory};
  }

  Result<encore::DeviceMemory> device_memory(int32_t device) const override {
    ENCORE_RETURN_IF_ERROR(check_ready(device));
    return encore::DeviceMemory{memory_->total_bytes(), memory_->free_bytes()};
  }

  Result<encore::DeviceLimits> measure_limits(int32_t device) override {
    ENCORE_RETURN_IF_ERROR(check_ready(device));
    return encore::DeviceLimits{};  // unknown
  }

  // What the kernels cannot do is refused here, before any memory is taken.
  Status check_model(int32_t device, const encore::ModelSpec& spec,
                     std::span<const encore::WeightInfo> weights) const override {
    ENCORE_RETURN_IF_ERROR(check_device(device));
    if (spec.head_dim < 8 || spec.head_dim % 8 != 0 || spec.head_dim > 256) {
      return encore::unimplemented("head_dim is " + std::to_string(spec.head_dim) +
                                   "; acme.toy takes multiples of 8 up to 256");
    }
    if (spec.num_heads > 64 * spec.num_kv_heads) {
      return encore::unimplemented("num_heads is " + std::to_string(spec.num_heads) +
                                   " with num_kv_heads " + std::to_string(spec.num_kv_heads) +
                                   "; acme.toy takes groups of up to 64");
    }
    for (const encore::WeightInfo& weight : weights) {
      if (std::find(kWeightTypes.begin(), kWeightTypes.end(), weight.dtype) == kWeightTypes.end()) {
        return encore::unimplemented("weight '" + weight.name + "' is " +
                                     std::string(encore::dtype_name(weight.dtype)) +
                                     ", which acme.toy does not take");
      }
    }
    return lowering::check_model(spec, weights);
  }

  Result<std::unique_ptr<encore::Model>> load_model(int32_t device, const encore::ModelSpec& spec,
                                                    const encore::WeightSource& weights,
                                                    const encore::LoadOptions& options) override {
    ENCORE_RETURN_IF_ERROR(check_ready(device));
    ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
    if (options.tensor_parallel_size != 1) {
      return encore::unimplemented("tensor_parallel_size is " +
                                   std::to_string(options.tensor_parallel_size) +
                                   "; acme.toy is one device: set parallel.tensor to 1");
    }
    ENCORE_ASSIGN_OR_RETURN(
        std::unique_ptr<encore::Model> model,
        lowering::LoweredModel::load(std::make_unique<ToyDevice>(memory_), spec, weights, options));
    ++models_loaded_;
    return model;
  }

  std::vector<std::pair<std::string, int64_t>> stats() const override {
    return {{"models_loaded", models_loaded_}};
  }

  Status selftest(int32_t device) override;

 private:
  static Status check_device(int32_t device) {
    if (device == 0) return {};
    return encore::invalid_argument("device is " + std::to_string(device) +
                                    "; acme.toy has only 0");
  }
  Status check_ready(int32_t device) const {
    if (memory_ == nullptr) return encore::failed_precondition("acme.toy is not initialised");
    return check_device(device);
  }

  std::shared_ptr<ToyMemory> memory_;
  int64_t models_loaded_ = 0;
};

// A known answer, all the way round: in, through a recorded kernel, and out.
Status ToyBackend::selftest(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  struct Numbers {
    std::array<float, 4> x{3.0F, 0.0F, 4.0F, 0.0F};  // their mean square is 6.25
    std::array<float, 4> weight{1.0F, 1.0F, 2.0F, 1.0F};
    std::array<float, 4> y{};
    int32_t rows = 1;
  } numbers;
  const auto bytes = static_cast<int64_t>(sizeof(numbers));
  ENCORE_ASSIGN_OR_RETURN(auto block, memory_->allocate(bytes, "self-test"));
  ENCORE_RETURN_IF_ERROR(
      memory_->copy_in(block->data(), reinterpret_cast<const std::byte*>(&numbers), bytes));
  auto* there = reinterpret_cast<Numbers*>(memory_->resolve(block->data()));
  kernels::RmsNormArgs args{};
  args.num_rows = &there->rows;
  args.x = there->x.data();
  args.weight = there->weight.data();
  args.y = there->y.data();
  args.hidden_size = 4;
  ToyCore core(memory_);
  ENCORE_RETURN_IF_ERROR(core.begin());
  core.call(kernels::rms_norm_kernel(kernels::IsaLevel::kGeneric), args);
  ENCORE_ASSIGN_OR_RETURN(auto program, core.end());
  core.launch(static_cast<const ToyProgram&>(*program));
  ENCORE_RETURN_IF_ERROR(
      memory_->copy_out(reinterpret_cast<std::byte*>(&numbers), block->data(), bytes));
  constexpr std::array<float, 4> kExpected = {1.2F, 0.0F, 3.2F, 0.0F};
  for (size_t i = 0; i < kExpected.size(); ++i) {
    if (std::abs(numbers.y[i] - kExpected[i]) > 1e-6F) {
      return encore::internal_error("the self-test's element " + std::to_string(i) + " is " +
                                    std::to_string(numbers.y[i]) + "; it should be " +
                                    std::to_string(kExpected[i]));
    }
  }
  return {};
}

}  // namespace
}  // namespace acme

ENCORE_EXPORT_BACKEND(acme::ToyBackend)
