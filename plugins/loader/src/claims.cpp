#include "claims.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "encore/reason.h"
#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/abi_text.h"

namespace encore {
namespace {

using sdk::read_sized;
using sdk::StridedArray;
using sdk::text_from_abi;

constexpr uint64_t kSmallestElement = 8;

Status claim_error(const std::string& what, const std::string& value, const std::string& expected) {
  return internal_error("the plugin claims " + what + " = " + value + "; expected " + expected);
}

Status check_array(const char* what, const void* data, uint64_t count, uint64_t stride,
                   uint64_t limit) {
  if (count == 0) return {};
  if (count > limit) {
    return claim_error(std::string("a number of ") + what, std::to_string(count),
                       "at most " + std::to_string(limit));
  }
  if (data == nullptr) return claim_error(what, "null", "an array");
  if (stride < kSmallestElement || stride > kMaxStructBytes) {
    return claim_error(std::string("a stride of ") + what, std::to_string(stride),
                       std::to_string(kSmallestElement) + " to " + std::to_string(kMaxStructBytes));
  }
  return {};
}

Status check_bytes(const char* what, int64_t bytes) {
  if (bytes >= 0 && bytes <= kMaxBytes) return {};
  return claim_error(what, std::to_string(bytes), "0 to " + std::to_string(kMaxBytes));
}

Status check_count(const char* what, int64_t count) {
  if (count >= 0) return {};
  return claim_error(what, std::to_string(count), "0 or more");
}

bool is_known_reason(int32_t reason) { return reason >= 0 && reason < kNumReasons; }

Result<OptionSchema> read_option(const encore_option_schema& in) {
  OptionSchema option;
  option.key = text_from_abi(in.key, in.key_size);
  if (option.key.empty()) return claim_error("an option key", "''", "a name");
  if (in.type < ENCORE_OPTION_INT || in.type > ENCORE_OPTION_ENUM) {
    return claim_error("the type of option '" + option.key + "'", std::to_string(in.type),
                       "0 to 4");
  }
  option.type = static_cast<OptionType>(in.type);
  option.default_value = text_from_abi(in.default_value, in.default_value_size);
  option.help = text_from_abi(in.help, in.help_size);
  option.minimum = in.minimum;
  option.maximum = in.maximum;
  ENCORE_RETURN_IF_ERROR(
      check_array("choices", in.choices, in.choices_count, in.choices_stride, kMaxChoices));
  const StridedArray<encore_text> choices(in.choices, in.choices_count, in.choices_stride);
  for (size_t i = 0; i < choices.size(); ++i) {
    option.choices.push_back(text_from_abi(choices[i].data, choices[i].size));
  }
  return option;
}

Result<BucketReport> read_bucket(const encore_bucket_report& in) {
  BucketReport bucket;
  if (in.bucket < 1) return claim_error("a bucket", std::to_string(in.bucket), "1 or more");
  bucket.bucket = in.bucket;
  bucket.message = text_from_abi(in.message, in.message_size);
  bucket.reason =
      is_known_reason(in.reason) ? static_cast<Reason>(in.reason) : Reason::kUnsupported;
  if (!is_known_reason(in.reason)) {
    bucket.message += " (unknown reason " + std::to_string(in.reason) + ")";
  }
  ENCORE_RETURN_IF_ERROR(check_bytes("a bucket's arena_bytes", in.arena_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("a bucket's executable_bytes", in.executable_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("a bucket's workspace_bytes", in.workspace_bytes));
  ENCORE_RETURN_IF_ERROR(check_count("a bucket's capture_us", in.capture_us));
  ENCORE_RETURN_IF_ERROR(check_count("a bucket's num_nodes", in.num_nodes));
  ENCORE_RETURN_IF_ERROR(check_count("a bucket's num_segments", in.num_segments));
  bucket.arena_bytes = in.arena_bytes;
  bucket.executable_bytes = in.executable_bytes;
  bucket.workspace_bytes = in.workspace_bytes;
  bucket.capture_us = in.capture_us;
  bucket.num_nodes = in.num_nodes;
  bucket.num_segments = in.num_segments;
  return bucket;
}

}  // namespace

Result<std::vector<OptionSchema>> read_schema(const encore_backend_table& table) {
  encore_error error;
  sdk::prepare_error(&error);
  auto list = sdk::sized<encore_option_list>();
  const encore_status code = table.option_schema(table.backend, &list, &error);
  ENCORE_RETURN_IF_ERROR(sdk::status_from_abi(code, error));
  ENCORE_RETURN_IF_ERROR(
      check_array("options", list.options, list.options_count, list.options_stride, kMaxOptions));
  const StridedArray<encore_option_schema> options(list.options, list.options_count,
                                                   list.options_stride);
  std::vector<OptionSchema> schema;
  for (size_t i = 0; i < options.size(); ++i) {
    ENCORE_ASSIGN_OR_RETURN(OptionSchema option, read_option(options[i]));
    for (const OptionSchema& earlier : schema) {
      if (earlier.key == option.key) return claim_error("option", option.key + " twice", "it once");
    }
    schema.push_back(std::move(option));
  }
  return schema;
}

Result<int32_t> checked_device_count(int32_t count) {
  if (count >= 0 && count <= kMaxDevices) return count;
  return claim_error("device_count", std::to_string(count), "0 to " + std::to_string(kMaxDevices));
}

Result<DeviceInfo> read_device_info(const encore_device_info& info) {
  DeviceInfo device;
  device.id = text_from_array(info.id, info.id_size);
  device.name = text_from_array(info.name, info.name_size);
  device.architecture = text_from_array(info.architecture, info.architecture_size);
  device.capabilities = info.capabilities;
  if (device.id.empty()) return claim_error("a device id", "''", "an id");
  return device;
}

Result<DeviceMemory> read_device_memory(const encore_device_memory& memory) {
  ENCORE_RETURN_IF_ERROR(check_bytes("total_bytes", memory.total_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("free_bytes", memory.free_bytes));
  return DeviceMemory{.total_bytes = memory.total_bytes, .free_bytes = memory.free_bytes};
}

Result<DeviceLimits> read_device_limits(const encore_device_limits& limits) {
  for (const double value : {limits.read_bytes_per_s, limits.matmul_ops_per_s}) {
    if (!std::isfinite(value) || value < 0.0) {
      return claim_error("a device limit", std::to_string(value), "0 or more");
    }
  }
  return DeviceLimits{.read_bytes_per_s = limits.read_bytes_per_s,
                      .matmul_ops_per_s = limits.matmul_ops_per_s};
}

Result<ModelInfo> read_model_info(const encore_model_info& info) {
  ENCORE_RETURN_IF_ERROR(check_bytes("weight_bytes", info.weight_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("mapped_bytes", info.mapped_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("workspace_bytes", info.workspace_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("step_weight_bytes", info.step_weight_bytes));
  return ModelInfo{.weight_bytes = info.weight_bytes,
                   .mapped_bytes = info.mapped_bytes,
                   .workspace_bytes = info.workspace_bytes,
                   .step_weight_bytes = info.step_weight_bytes};
}

Result<KvInfo> read_kv_info(const encore_kv_info& info, const KvOptions& asked) {
  if (info.num_pages != asked.num_pages) {
    return claim_error("num_pages", std::to_string(info.num_pages),
                       "the " + std::to_string(asked.num_pages) + " asked for");
  }
  if (info.page_size != asked.page_size) {
    return claim_error("page_size", std::to_string(info.page_size),
                       "the " + std::to_string(asked.page_size) + " asked for");
  }
  ENCORE_RETURN_IF_ERROR(check_bytes("page_bytes", info.page_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("total_bytes", info.total_bytes));
  const auto dtype = static_cast<DType>(info.dtype);
  if (dtype != DType::kInvalid && asked.dtype != DType::kInvalid && dtype != asked.dtype) {
    return claim_error("the KV cache's dtype", std::string(dtype_name(dtype)),
                       "the " + std::string(dtype_name(asked.dtype)) + " asked for");
  }
  if (dtype != DType::kInvalid && dtype_info(dtype).block_elements == 0) {
    return claim_error("the KV cache's dtype", std::to_string(info.dtype), "a dtype's number");
  }
  return KvInfo{.num_pages = info.num_pages,
                .page_size = info.page_size,
                .page_bytes = info.page_bytes,
                .total_bytes = info.total_bytes,
                .dtype = dtype == DType::kInvalid ? asked.dtype : dtype};
}

Result<MemoryPlan> read_memory_plan(const encore_memory_plan& plan) {
  ENCORE_RETURN_IF_ERROR(check_bytes("kv_page_bytes", plan.kv_page_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("kv_fixed_bytes", plan.kv_fixed_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("runner_bytes", plan.runner_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("executable_bytes", plan.executable_bytes));
  if (plan.kv_page_bytes == 0) return claim_error("kv_page_bytes", "0", "1 or more");
  return MemoryPlan{.kv_page_bytes = plan.kv_page_bytes,
                    .kv_fixed_bytes = plan.kv_fixed_bytes,
                    .runner_bytes = plan.runner_bytes,
                    .executable_bytes = plan.executable_bytes};
}

Result<TraceEvent> read_trace_event(const encore_trace_event& event) {
  for (const double us : {event.start_us, event.duration_us}) {
    if (!std::isfinite(us) || us < 0.0) {
      return claim_error("a trace event's time", std::to_string(us), "0 or more");
    }
  }
  if (event.lane < 0) return claim_error("a trace lane", std::to_string(event.lane), "0 or more");
  return TraceEvent{.name = text_from_abi(event.name, event.name_size),
                    .start_us = event.start_us,
                    .duration_us = event.duration_us,
                    .lane = event.lane};
}

Result<CaptureReport> read_capture_report(const encore_capture_report* report) {
  if (report == nullptr) return claim_error("a capture report", "null", "a report");
  const encore_capture_report in = read_sized(report);
  ENCORE_RETURN_IF_ERROR(
      check_array("buckets", in.buckets, in.buckets_count, in.buckets_stride, kMaxBuckets));
  ENCORE_RETURN_IF_ERROR(check_bytes("arena_bytes", in.arena_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("static_bytes", in.static_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("workspace_bytes", in.workspace_bytes));
  ENCORE_RETURN_IF_ERROR(check_bytes("executable_bytes", in.executable_bytes));
  ENCORE_RETURN_IF_ERROR(check_count("total_us", in.total_us));
  ENCORE_RETURN_IF_ERROR(check_bytes("host_bytes", in.host_bytes));
  CaptureReport out;
  const StridedArray<encore_bucket_report> buckets(in.buckets, in.buckets_count, in.buckets_stride);
  for (size_t i = 0; i < buckets.size(); ++i) {
    ENCORE_ASSIGN_OR_RETURN(BucketReport bucket, read_bucket(buckets[i]));
    out.buckets.push_back(std::move(bucket));
  }
  out.arena_bytes = in.arena_bytes;
  out.static_bytes = in.static_bytes;
  out.workspace_bytes = in.workspace_bytes;
  out.executable_bytes = in.executable_bytes;
  out.total_us = in.total_us;
  out.host_bytes = in.host_bytes;
  return out;
}

RunnerCheck read_verdict(const encore_runner_verdict& verdict) {
  if (!is_known_reason(verdict.reason) || verdict.bucket < 0) {
    return {.reason = Reason::kUnsupported, .bucket = 0};
  }
  return {.reason = static_cast<Reason>(verdict.reason), .bucket = verdict.bucket};
}

}  // namespace encore
