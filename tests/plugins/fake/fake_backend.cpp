#include "fake_backend.h"

#include <stdexcept>

#include "encore/sdk/host.h"
#include "fake_model.h"

namespace encore {
namespace {

Status check_device(int32_t device) {
  if (device >= 0 && device < 2) return {};
  return not_found("device " + std::to_string(device) + " does not exist; there are 0 and 1");
}

void throw_if_asked(const FakeOptions& options, const std::string& function) {
  if (options.throw_in == function) throw std::runtime_error("thrown in " + function);
}

Status fail_if_asked(const FakeOptions& options, const std::string& function) {
  if (options.fail_in != function) return {};
  return out_of_memory("asked to fail in " + function);
}

}  // namespace

float fake_logit(uint64_t state, int64_t token) {
  uint64_t x = state + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(token + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<float>((x ^ (x >> 31)) >> 40) / 1048576.0F - 8.0F;  // [-8, 8)
}

uint64_t fake_hash(uint64_t state, int32_t token) {
  uint64_t x = (state ^ static_cast<uint64_t>(token)) + 0x2545F4914F6CDD1DULL;
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDULL;
  return x ^ (x >> 29);
}

BackendIdentity FakeBackend::identity() const {
  return {.name = "fake", .vendor = "Encore tests", .version = "1.2.3", .build_id = "fake-build"};
}

std::vector<OptionSchema> FakeBackend::option_schema() const {
  const std::vector<std::string> functions = {"none",  "init",   "load", "create_kv", "capture",
                                              "check", "submit", "wait", "shutdown"};
  return {{.key = "throw_in",
           .type = OptionType::kEnum,
           .default_value = "none",
           .choices = functions,
           .help = "The function that throws."},
          {.key = "fail_in",
           .type = OptionType::kEnum,
           .default_value = "none",
           .choices = functions,
           .help = "The function that fails."},
          {.key = "damage_guards",
           .type = OptionType::kBool,
           .default_value = "false",
           .choices = {},
           .help = "Whether check_guards finds damage."},
          {.key = "skip_bucket",
           .type = OptionType::kInt,
           .default_value = "0",
           .minimum = 0.0,
           .maximum = 65536.0,
           .choices = {},
           .help = "The bucket that does not fit in memory."},
          {.key = "async",
           .type = OptionType::kBool,
           .default_value = "false",
           .choices = {},
           .help = "Whether steps run by themselves."},
          {.key = "memory_bytes",
           .type = OptionType::kInt,
           .default_value = "0",
           .minimum = 0.0,
           .maximum = 1e12,
           .choices = {},
           .help = "Memory of the device's own; 0: it has none."}};
}

ProbeResult FakeBackend::probe() const { return {.usable = true, .reason = "always"}; }

Status FakeBackend::init(const OptionValues& options) {
  options_ = {};
  for (const auto& [key, value] : options) {
    if (key == "throw_in") options_.throw_in = value;
    if (key == "fail_in") options_.fail_in = value;
    if (key == "damage_guards") options_.damage_guards = value == "true";
    if (key == "skip_bucket") options_.skip_bucket = std::stoi(value);
    if (key == "async") options_.async = value == "true";
    if (key == "memory_bytes") options_.memory_bytes = std::stoll(value);
  }
  throw_if_asked(options_, "init");
  ENCORE_RETURN_IF_ERROR(fail_if_asked(options_, "init"));
  memory_->total_bytes = options_.memory_bytes;
  ++num_inits_;
  sdk::log(sdk::LogLevel::kInfo, "fake backend is ready");
  return {};
}

void FakeBackend::shutdown() {
  ++num_shutdowns_;
  throw_if_asked(options_, "shutdown");
}

Result<DeviceInfo> FakeBackend::device_info(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  uint64_t capabilities = kCapabilityEager | kCapabilityPrefillFull | kCapabilityPrefillBreakable |
                          kCapabilityDecodeGraph;
  if (options_.async) capabilities |= kCapabilityAsync;
  if (options_.memory_bytes > 0) capabilities |= kCapabilityDeviceMemory;
  return DeviceInfo{.id = "fake:" + std::to_string(device),
                    .name = "Fake device",
                    .architecture = "hash",
                    .capabilities = capabilities};
}

Result<DeviceMemory> FakeBackend::device_memory(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  if (memory_->total_bytes > 0) {
    return DeviceMemory{.total_bytes = memory_->total_bytes,
                        .free_bytes = memory_->total_bytes - memory_->used_bytes()};
  }
  return DeviceMemory{.total_bytes = 1000000 + device, .free_bytes = 900000 + device};
}

Result<DeviceLimits> FakeBackend::measure_limits(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  return DeviceLimits{.read_bytes_per_s = 1.5e10, .matmul_ops_per_s = 2.5e12};
}

Status FakeBackend::check_model(int32_t device, const ModelSpec& spec,
                                std::span<const WeightInfo> /*weights*/) const {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  if (spec.vocab_size < 1 || spec.vocab_size > (1 << 20)) {
    return unimplemented("vocab_size is " + std::to_string(spec.vocab_size) +
                         "; the fake backend takes 1 to 1048576");
  }
  return {};
}

Result<std::unique_ptr<Model>> FakeBackend::load_model(int32_t device, const ModelSpec& spec,
                                                       const WeightSource& weights,
                                                       const LoadOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
  throw_if_asked(options_, "load");
  ENCORE_RETURN_IF_ERROR(fail_if_asked(options_, "load"));
  int64_t total = 0;
  for (const WeightInfo& weight : weights.weights()) total += weight.bytes;
  int64_t done = 0;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < weights.weights().size(); ++i) {
    bytes.resize(static_cast<size_t>(weights.weights()[i].bytes));
    ENCORE_RETURN_IF_ERROR(weights.read(i, 0, bytes));
    done += weights.weights()[i].bytes;
    if (options.progress && !options.progress(done, total)) return cancelled("load was cancelled");
  }
  return std::unique_ptr<Model>(std::make_unique<FakeModel>(spec, options_, memory_, total));
}

std::vector<std::pair<std::string, int64_t>> FakeBackend::stats() const {
  std::vector<std::pair<std::string, int64_t>> stats = {{"inits", num_inits_},
                                                        {"shutdowns", num_shutdowns_}};
  if (memory_->total_bytes > 0) {
    stats.emplace_back(kContextBytesStat, FakeMemory::kContextBytes);
    stats.emplace_back(kAllocatedBytesStat, memory_->allocated_bytes);
  }
  return stats;
}

Status FakeBackend::selftest(int32_t device) { return check_device(device); }

}  // namespace encore
