// The functions of the table, written once over the C++ interfaces of core. None lets an exception
// escape: guarded() turns it into an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/from_abi.h"
#include "encore/sdk/handles.h"

namespace encore::sdk {

// Backend and devices.

inline encore_status probe(encore_backend* self, encore_probe_result* result,
                           encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    const ProbeResult found = self->backend->probe();
    auto out = sized<encore_probe_result>();
    out.usable = found.usable ? 1 : 0;
    text_to_array(found.reason, out.reason, sizeof(out.reason), &out.reason_size);
    write_sized(out, result);
    return {};
  });
}

inline encore_status option_schema(encore_backend* self, encore_option_list* list,
                                   encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    write_sized(self->schema.list(), list);
    return {};
  });
}

inline encore_status init(encore_backend* self, const encore_option_value* values, uint64_t count,
                          uint64_t stride, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    if (self->initialised) {
      return failed_precondition("backend '" + self->identity.name +
                                 "' is initialised already; call shutdown first");
    }
    ENCORE_RETURN_IF_ERROR(self->backend->init(option_values_from_abi(values, count, stride)));
    self->initialised = true;
    return {};
  });
}

inline void shutdown(encore_backend* self) noexcept {
  guarded_void([&] {
    if (!self->initialised) return;
    self->initialised = false;
    self->backend->shutdown();
  });
}

inline encore_status device_count(encore_backend* self, int32_t* count,
                                  encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    *count = self->backend->device_count();
    return {};
  });
}

inline encore_status device_info(encore_backend* self, int32_t device, encore_device_info* info,
                                 encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(const DeviceInfo found, self->backend->device_info(device));
    auto out = sized<encore_device_info>();
    out.capabilities = found.capabilities;
    text_to_array(found.id, out.id, sizeof(out.id), &out.id_size);
    text_to_array(found.name, out.name, sizeof(out.name), &out.name_size);
    text_to_array(found.architecture, out.architecture, sizeof(out.architecture),
                  &out.architecture_size);
    write_sized(out, info);
    return {};
  });
}

inline encore_status device_memory(encore_backend* self, int32_t device,
                                   encore_device_memory* memory, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(const DeviceMemory found, self->backend->device_memory(device));
    write_sized({.struct_size = sizeof(encore_device_memory),
                 .total_bytes = found.total_bytes,
                 .free_bytes = found.free_bytes},
                memory);
    return {};
  });
}

inline encore_status stats(encore_backend* self, encore_stat_fn visit, void* context,
                           encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    for (const auto& [name, value] : self->backend->stats()) {
      visit(context, name.data(), name.size(), value);
    }
    return {};
  });
}

inline encore_status selftest(encore_backend* self, int32_t device, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] { return self->backend->selftest(device); });
}

// Models.

inline encore_status model_check(encore_backend* self, int32_t device,
                                 const encore_model_spec* spec, const encore_weight_info* weights,
                                 uint64_t count, uint64_t stride, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] {
    return self->backend->check_model(device, model_spec_from_abi(spec),
                                      weights_from_abi(weights, count, stride));
  });
}

inline encore_status model_load(encore_backend* self, int32_t device, const encore_model_spec* spec,
                                const encore_weight_source* weights,
                                const encore_load_options* options, encore_model** model,
                                encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    auto handle = std::make_unique<encore_model>(weights);
    ENCORE_ASSIGN_OR_RETURN(
        handle->model, self->backend->load_model(device, model_spec_from_abi(spec), handle->weights,
                                                 load_options_from_abi(options)));
    if (handle->model == nullptr) return internal_error("load_model returned a null model");
    *model = handle.release();
    return {};
  });
}

inline encore_status model_info(encore_model* self, encore_model_info* info,
                                encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    const ModelInfo found = self->model->info();
    write_sized({.struct_size = sizeof(encore_model_info),
                 .weight_bytes = found.weight_bytes,
                 .mapped_bytes = found.mapped_bytes,
                 .workspace_bytes = found.workspace_bytes,
                 .step_weight_bytes = found.step_weight_bytes},
                info);
    return {};
  });
}

inline void model_free(encore_model* self) noexcept {
  guarded_void([&] { delete self; });
}

// KV caches.

inline encore_status kv_create(encore_model* self, const encore_kv_options* options, encore_kv** kv,
                               encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    auto handle = std::make_unique<encore_kv>();
    ENCORE_ASSIGN_OR_RETURN(handle->kv, self->model->create_kv(kv_options_from_abi(options)));
    if (handle->kv == nullptr) return internal_error("create_kv returned a null cache");
    *kv = handle.release();
    return {};
  });
}

inline encore_status kv_info(encore_kv* self, encore_kv_info* info, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    const KvInfo found = self->kv->info();
    write_sized({.struct_size = sizeof(encore_kv_info),
                 .num_pages = found.num_pages,
                 .page_size = found.page_size,
                 .page_bytes = found.page_bytes,
                 .total_bytes = found.total_bytes,
                 .dtype = static_cast<int32_t>(found.dtype),
                 .reserved = 0},
                info);
    return {};
  });
}

inline encore_status kv_copy(encore_kv* self, const encore_page_copy* copies, uint64_t count,
                             uint64_t stride, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] {
    std::vector<PageCopy> scratch;  // stays empty with an equal host
    return self->kv->copy_pages(elements_from_abi(copies, count, stride, &scratch));
  });
}

inline encore_status kv_read(encore_kv* self, int32_t page, void* destination, uint64_t size,
                             encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] {
    return self->kv->read_page(page, span_of(static_cast<std::byte*>(destination), size));
  });
}

inline void kv_free(encore_kv* self) noexcept {
  guarded_void([&] { delete self; });
}

// Runners.

// The three creating functions differ only in the method of Model that they call.
template <Result<RunnerCapture> (Model::*kCreate)(KvCache&, const CaptureOptions&)>
encore_status create_runner(encore_model* self, encore_kv* kv,
                            const encore_capture_options* options, encore_runner** runner,
                            const encore_capture_report** report, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture,
                            (*self->model.*kCreate)(*kv->kv, capture_options_from_abi(options)));
    if (capture.runner == nullptr) return internal_error("the capture holds a null runner");
    auto handle = std::make_unique<encore_runner>(std::move(capture));
    *report = handle->report.report();
    *runner = handle.release();
    return {};
  });
}

inline encore_status runner_check(encore_runner* self, const encore_forward_batch* batch,
                                  const encore_step_output* output, encore_runner_verdict* verdict,
                                  encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    const RunnerCheck check =
        self->runner->check(batch_from_abi(batch, &self->scratch), step_output_from_abi(output));
    write_sized({.struct_size = sizeof(encore_runner_verdict),
                 .reason = static_cast<int32_t>(check.reason),
                 .bucket = check.bucket},
                verdict);
    return {};
  });
}

inline encore_status runner_submit(encore_runner* self, const encore_forward_batch* batch,
                                   const encore_step_output* output, uint64_t* ticket,
                                   encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_RUNNER, error, [&]() -> Status {
    OutputSlots::Slot& slot = self->outputs.acquire();
    slot.output = step_output_from_abi(output);
    ENCORE_ASSIGN_OR_RETURN(
        slot.ticket, self->runner->submit(batch_from_abi(batch, &self->scratch), slot.output));
    slot.busy = true;
    *ticket = slot.ticket;
    return {};
  });
}

inline encore_status runner_wait(encore_runner* self, uint64_t ticket, int64_t timeout_us,
                                 encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_RUNNER, error, [&]() -> Status {
    Status status = self->runner->wait(ticket, timeout_us);
    if (status.code() != StatusCode::kDeadlineExceeded) self->outputs.release(ticket);
    return status;
  });
}

inline void runner_free(encore_runner* self) noexcept {
  guarded_void([&] { delete self; });
}

// Extensions.

inline encore_status set_observer(encore_model* self, encore_layer_observer_fn observer,
                                  void* context, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] {
    if (observer == nullptr) return self->model->set_layer_observer({});
    return self->model->set_layer_observer([observer, context](const LayerOutput& output) {
      const encore_layer_output out = {
          .struct_size = sizeof(encore_layer_output),
          .hidden = output.hidden,
          .hidden_count = static_cast<uint64_t>(output.num_tokens) * output.hidden_size,
          .layer = output.layer,
          .num_tokens = output.num_tokens,
          .hidden_size = output.hidden_size,
          .reserved = 0};
      observer(context, &out);
    });
  });
}

inline encore_status measure_limits(encore_backend* self, int32_t device,
                                    encore_device_limits* limits, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(const DeviceLimits found, self->backend->measure_limits(device));
    write_sized({.struct_size = sizeof(encore_device_limits),
                 .read_bytes_per_s = found.read_bytes_per_s,
                 .matmul_ops_per_s = found.matmul_ops_per_s},
                limits);
    return {};
  });
}

inline encore_status check_guards(encore_model* self, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&] { return self->model->check_guards(); });
}

inline encore_status plan_memory(encore_model* self, const encore_kv_options* kv,
                                 const encore_capture_options* options, encore_memory_plan* plan,
                                 encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(
        const MemoryPlan found,
        self->model->plan_memory(kv_options_from_abi(kv), capture_options_from_abi(options)));
    write_sized({.struct_size = sizeof(encore_memory_plan),
                 .kv_page_bytes = found.kv_page_bytes,
                 .kv_fixed_bytes = found.kv_fixed_bytes,
                 .runner_bytes = found.runner_bytes,
                 .executable_bytes = found.executable_bytes},
                plan);
    return {};
  });
}

inline encore_status capture_bucket(encore_runner* self, int32_t bucket,
                                    const encore_capture_report** report,
                                    encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_RUNNER, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(CaptureReport captured, self->runner->capture_bucket(bucket));
    self->lazy_report = std::make_unique<ReportStorage>(std::move(captured));
    *report = self->lazy_report->report();
    return {};
  });
}

inline encore_status trace_step(encore_runner* self, const encore_forward_batch* batch,
                                const encore_step_output* output, encore_trace_event_fn visit,
                                void* context, encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_RUNNER, error, [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(
        const std::vector<TraceEvent> events,
        self->runner->trace(batch_from_abi(batch, &self->scratch), step_output_from_abi(output)));
    for (const TraceEvent& event : events) {
      const encore_trace_event out = {.struct_size = sizeof(encore_trace_event),
                                      .name = event.name.data(),
                                      .name_size = event.name.size(),
                                      .start_us = event.start_us,
                                      .duration_us = event.duration_us,
                                      .lane = event.lane,
                                      .reserved = 0};
      visit(context, &out);
    }
    return {};
  });
}

inline encore_status fail_capture(encore_model* self, int32_t bucket, int32_t reason,
                                  encore_error* error) noexcept {
  return guarded(ENCORE_SCOPE_REQUEST, error,
                 [&] { return self->model->fail_capture(bucket, static_cast<Reason>(reason)); });
}

inline const void* get_extension(encore_backend* /*self*/, const char* name,
                                 uint64_t name_size) noexcept {
  static const encore_layer_observers_extension observers = {
      sizeof(encore_layer_observers_extension), set_observer};
  static const encore_device_limits_extension limits = {sizeof(encore_device_limits_extension),
                                                        measure_limits};
  static const encore_guards_extension guards = {sizeof(encore_guards_extension), check_guards};
  static const encore_memory_plan_extension plan = {sizeof(encore_memory_plan_extension),
                                                    plan_memory};
  static const encore_lazy_capture_extension lazy = {sizeof(encore_lazy_capture_extension),
                                                     capture_bucket};
  static const encore_step_trace_extension trace = {sizeof(encore_step_trace_extension),
                                                    trace_step};
  static const encore_fault_injection_extension faults = {sizeof(encore_fault_injection_extension),
                                                          fail_capture};
  const std::string_view wanted(name, static_cast<size_t>(name_size));
  if (wanted == ENCORE_EXTENSION_LAYER_OBSERVERS) return &observers;
  if (wanted == ENCORE_EXTENSION_DEVICE_LIMITS) return &limits;
  if (wanted == ENCORE_EXTENSION_GUARDS) return &guards;
  if (wanted == ENCORE_EXTENSION_MEMORY_PLAN) return &plan;
  if (wanted == ENCORE_EXTENSION_LAZY_CAPTURE) return &lazy;
  if (wanted == ENCORE_EXTENSION_STEP_TRACE) return &trace;
  if (wanted == ENCORE_EXTENSION_FAULT_INJECTION) return &faults;
  return nullptr;
}

}  // namespace encore::sdk
