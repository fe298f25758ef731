#include "cpu_backend.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "cpu_device.h"
#include "cpu_ranks.h"
#include "device_limits.h"
#include "encore/lowering/lowered_model.h"
#include "encore/lowering/model_check.h"
#include "selftest.h"
#include "topology.h"

namespace encore::cpu {
namespace {

constexpr std::array kWeightTypes = {DType::kF32,  DType::kF16,  DType::kBF16,
                                     DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                     DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
constexpr std::array kIsaLevels = {kernels::IsaLevel::kGeneric, kernels::IsaLevel::kAvx2,
                                   kernels::IsaLevel::kAvx512, kernels::IsaLevel::kAmx};
#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // begins with the compiler's name
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif
constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxRanks = 64;

std::string value_of(const OptionValues& options, std::string_view key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  return found == options.end() ? "auto" : found->second;
}

// The highest level that is in this library and that the machine offers.
kernels::IsaLevel best_level() {
  return std::min(kernels::built_level(), kernels::cpu_features().level);
}

// "auto", and the levels that init() takes.
std::vector<std::string> isa_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const kernels::IsaLevel level : kIsaLevels) {
    if (level <= best_level()) choices.emplace_back(kernels::isa_level_name(level));
  }
  return choices;
}

Result<kernels::IsaLevel> choose_level(const std::string& wanted) {
  if (wanted == "auto") return best_level();
  for (const kernels::IsaLevel level : kIsaLevels) {
    if (wanted != kernels::isa_level_name(level)) continue;
    if (level <= best_level()) return level;
    const std::string given = "backend.options.isa is " + wanted;
    if (level > kernels::built_level()) {
      return unavailable(given + "; this library holds kernels up to " +
                         kernels::isa_level_name(kernels::built_level()) +
                         "; load the variant of that name");
    }
    const kernels::CpuFeatures& features = kernels::cpu_features();
    return unavailable(given + "; this machine offers up to " +
                       kernels::isa_level_name(features.level) + " (" + features.reason + ")");
  }
  return invalid_argument("backend.options.isa is '" + wanted + "'");
}

Result<std::vector<int32_t>> choose_processors(const std::string& wanted) {
  const Topology topology = read_topology();
  std::vector<int32_t> processors = thread_processors(topology);
  if (wanted == "auto") return processors;
  int32_t count = 0;
  const auto parsed = std::from_chars(wanted.data(), wanted.data() + wanted.size(), count);
  if (parsed.ec != std::errc() || count < 1 || count > kMaxThreads) {
    return invalid_argument("backend.options.threads is '" + wanted +
                            "'; it must be auto or from " + "1 to " + std::to_string(kMaxThreads));
  }
  // More threads than cores: go round the processors that there are.
  const size_t available = processors.size();
  for (size_t i = available; i < static_cast<size_t>(count); ++i) {
    const int32_t processor = processors[i % available];
    processors.push_back(processor);
  }
  processors.resize(static_cast<size_t>(count));
  return processors;
}

Result<std::shared_ptr<ThreadTeam>> make_team(std::span<const int32_t> processors, bool pin) {
  try {
    return std::make_shared<ThreadTeam>(processors, pin);
  } catch (const std::system_error& error) {
    return out_of_memory("cannot start " + std::to_string(processors.size()) +
                         " threads: " + error.what() + "; lower backend.options.threads");
  }
}

}  // namespace

BackendIdentity CpuBackend::identity() const {
  return {"cpu", "Encore", ENCORE_VERSION,
          std::string(kernels::isa_level_name(kernels::built_level())) + ", " + kCompiler};
}

std::vector<OptionSchema> CpuBackend::option_schema() const {
  OptionSchema threads{"threads",
                       OptionType::kInt,
                       "auto",
                       1,
                       kMaxThreads,
                       {"auto"},
                       "Threads of the team; auto takes one a physical core within the affinity "
                       "mask and the cgroup's quota."};
  OptionSchema isa{"isa",
                   OptionType::kEnum,
                   "auto",
                   0,
                   -1,
                   isa_choices(),
                   "Instruction-set level; auto takes the best that this library holds and that "
                   "processor and operating system offer."};
  OptionSchema pin{"pin",
                   OptionType::kBool,
                   "true",
                   0,
                   -1,
                   {},
                   "Pin each thread but the caller's to a processor."};
  return {threads, isa, pin};
}

ProbeResult CpuBackend::probe() const { return {true, ""}; }

Status CpuBackend::init(const OptionValues& options) {
  if (team_ != nullptr) return failed_precondition("the CPU backend is already initialised");
  ENCORE_ASSIGN_OR_RETURN(level_, choose_level(value_of(options, "isa")));
  ENCORE_ASSIGN_OR_RETURN(processors_, choose_processors(value_of(options, "threads")));
  pin_ = value_of(options, "pin") != "false";
  ENCORE_ASSIGN_OR_RETURN(team_, make_team(processors_, pin_));
  return {};
}

void CpuBackend::shutdown() { team_.reset(); }

Status CpuBackend::check_ready(int32_t device) const {
  if (team_ == nullptr) return failed_precondition("the CPU backend is not initialised");
  if (device != 0) {
    return invalid_argument("device is " + std::to_string(device) + "; the CPU backend has only 0");
  }
  return {};
}

std::string CpuBackend::architecture() const {
  std::string name = std::string("x86-64 ") + kernels::isa_level_name(level_);
  if (level_ >= kernels::IsaLevel::kAvx512 && kernels::cpu_features().avx512_bf16) name += " bf16";
  return name;
}

Result<DeviceInfo> CpuBackend::device_info(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  return DeviceInfo{"cpu:0", std::to_string(team_->size()) + " threads", architecture(),
                    kCapabilityEager | kCapabilityPrefillFull | kCapabilityPrefillBreakable |
                        kCapabilityDecodeGraph | kCapabilityCollectives};
}

Result<DeviceMemory> CpuBackend::device_memory(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return DeviceMemory{sysconf(_SC_PHYS_PAGES) * page_bytes, sysconf(_SC_AVPHYS_PAGES) * page_bytes};
}

Result<DeviceLimits> CpuBackend::measure_limits(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  return cpu::measure_limits(*team_, level_);
}

Status CpuBackend::check_model(int32_t device, const ModelSpec& spec,
                               std::span<const WeightInfo> weights) const {
  if (device != 0) {
    return invalid_argument("device is " + std::to_string(device) + "; the CPU backend has only 0");
  }
  if (spec.head_dim < 8 || spec.head_dim % 8 != 0 || spec.head_dim > 256) {
    return unimplemented("head_dim is " + std::to_string(spec.head_dim) +
                         "; the CPU backend takes multiples of 8 up to 256");
  }
  if (spec.num_heads > 64 * spec.num_kv_heads) {
    return unimplemented("num_heads is " + std::to_string(spec.num_heads) + " with num_kv_heads " +
                         std::to_string(spec.num_kv_heads) +
                         "; the CPU backend takes groups of up to 64");
  }
  for (const WeightInfo& weight : weights) {
    if (std::find(kWeightTypes.begin(), kWeightTypes.end(), weight.dtype) == kWeightTypes.end()) {
      return unimplemented("weight '" + weight.name + "' has dtype " +
                           std::string(dtype_name(weight.dtype)) +
                           ", which the CPU backend does not take");
    }
  }
  return lowering::check_model(spec, weights);
}

Result<std::unique_ptr<Model>> CpuBackend::load_model(int32_t device, const ModelSpec& spec,
                                                      const WeightSource& weights,
                                                      const LoadOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
  const int32_t num_ranks = options.tensor_parallel_size;
  std::unique_ptr<Model> model;
  if (num_ranks == 1) {
    ENCORE_ASSIGN_OR_RETURN(
        model, lowering::LoweredModel::load(std::make_unique<CpuDevice>(team_, level_), spec,
                                            weights, options));
  } else {
    if (options.tensor_parallel_rank != kAllRanks || num_ranks < 1 || num_ranks > kMaxRanks) {
      return unimplemented("tensor_parallel_size is " + std::to_string(num_ranks) +
                           " and tensor_parallel_rank " +
                           std::to_string(options.tensor_parallel_rank) +
                           "; the CPU backend runs all ranks, from 1 to " +
                           std::to_string(kMaxRanks) + ", in one process");
    }
    ENCORE_ASSIGN_OR_RETURN(auto teams, divide_threads(num_ranks));
    ENCORE_ASSIGN_OR_RETURN(
        model, lowering::ParallelModel::load(std::make_unique<CpuRanks>(std::move(teams), level_),
                                             spec, weights, options));
  }
  ++models_loaded_;
  return model;
}

Result<std::vector<std::shared_ptr<ThreadTeam>>> CpuBackend::divide_threads(
    int32_t num_ranks) const {
  const auto ranks = static_cast<size_t>(num_ranks);
  const size_t each = std::max<size_t>(1, processors_.size() / ranks);
  std::vector<std::shared_ptr<ThreadTeam>> teams;
  for (size_t rank = 0; rank < ranks; ++rank) {
    // With fewer threads than ranks, ranks share processors.
    const size_t begin = rank * each % processors_.size();
    const std::span<const int32_t> own = std::span(processors_).subspan(begin, each);
    ENCORE_ASSIGN_OR_RETURN(teams.emplace_back(), make_team(own, pin_));
  }
  return teams;
}

std::vector<std::pair<std::string, int64_t>> CpuBackend::stats() const {
  return {{"threads", team_ == nullptr ? 0 : team_->size()}, {"models_loaded", models_loaded_}};
}

Status CpuBackend::selftest(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_ready(device));
  return cpu::selftest(*team_, level_);
}

}  // namespace encore::cpu
