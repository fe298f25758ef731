#include "model_proxy.h"

#include <exception>
#include <string>

#include "abi_call.h"
#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "kv_proxy.h"
#include "plugin_log.h"
#include "runner_proxy.h"
#include "to_abi.h"

namespace encore {
namespace {

using LoadProgress = std::function<bool(int64_t, int64_t)>;

// A progress function that throws stops the load.
int32_t load_progress(void* context, int64_t done_bytes, int64_t total_bytes) noexcept {
  try {
    return (*static_cast<const LoadProgress*>(context))(done_bytes, total_bytes) ? 0 : 1;
  } catch (...) {
    return 1;
  }
}

encore_load_options load_options_to_abi(const LoadOptions& options) {
  return {.struct_size = sizeof(encore_load_options),
          .tensor_parallel_rank = options.tensor_parallel_rank,
          .tensor_parallel_size = options.tensor_parallel_size,
          .progress = options.progress ? load_progress : nullptr,
          .progress_context = const_cast<LoadProgress*>(&options.progress)};
}

}  // namespace

Result<std::unique_ptr<Model>> ModelProxy::load(std::shared_ptr<const PluginContext> context,
                                                int32_t device, const ModelSpec& spec,
                                                const WeightSource& weights,
                                                const LoadOptions& options) {
  std::unique_ptr<ModelProxy> model(new ModelProxy(std::move(context), weights));
  const encore_backend_table& table = model->context_->table;
  const encore_model_spec abi_spec = model_spec_to_abi(spec);
  const encore_load_options abi_options = load_options_to_abi(options);
  encore_model* handle = nullptr;
  ENCORE_RETURN_IF_ERROR(abi_call(table.model_load, table.backend, device, &abi_spec,
                                  model->weights_.abi(), &abi_options, &handle));
  if (handle == nullptr) return internal_error("model_load succeeded without a model");
  model->handle_ = handle;
  return std::unique_ptr<Model>(std::move(model));
}

ModelProxy::~ModelProxy() {
  if (handle_ != nullptr) context_->table.model_free(handle_);
}

ModelInfo ModelProxy::info() const {
  auto info = sdk::sized<encore_model_info>();
  const Status status = abi_call(context_->table.model_info, handle_, &info);
  const Result<ModelInfo> checked = status.ok() ? read_model_info(info) : status;
  if (checked.ok()) return *checked;
  plugin_log(sdk::LogLevel::kError, "backend '" + context_->identity.name +
                                        "': no model info: " + checked.status().to_string());
  return {};
}

Result<std::unique_ptr<KvCache>> ModelProxy::create_kv(const KvOptions& options) {
  return KvProxy::create(context_, handle_, options);
}

Result<MemoryPlan> ModelProxy::plan_memory(const KvOptions& kv, const CaptureOptions& options) {
  if (context_->plan.plan == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_MEMORY_PLAN);
  }
  const encore_kv_options abi_kv = kv_options_to_abi(kv);
  const encore_runner_limits limits = limits_to_abi(options.limits);
  const encore_capture_options abi_options = capture_options_to_abi(options, limits);
  auto plan = sdk::sized<encore_memory_plan>();
  ENCORE_RETURN_IF_ERROR(abi_call(context_->plan.plan, handle_, &abi_kv, &abi_options, &plan));
  return read_memory_plan(plan);
}

Result<RunnerCapture> ModelProxy::create_runner(CreateFunction function, RunnerKind kind,
                                                KvCache& kv, const CaptureOptions& options) {
  const auto* cache = dynamic_cast<const KvProxy*>(&kv);
  if (cache == nullptr || cache->model() != handle_) {
    return invalid_argument("the KV cache was not created by this model");
  }
  const encore_runner_limits limits = limits_to_abi(options.limits);
  const encore_capture_options abi_options = capture_options_to_abi(options, limits);
  encore_runner* handle = nullptr;
  const encore_capture_report* report = nullptr;
  ENCORE_RETURN_IF_ERROR(
      abi_call(function, handle_, cache->handle(), &abi_options, &handle, &report));
  if (handle == nullptr) return internal_error("the plugin reported a capture without a runner");
  RunnerCapture capture;
  capture.runner = std::make_unique<RunnerProxy>(context_, handle, kind);
  ENCORE_ASSIGN_OR_RETURN(capture.report, read_capture_report(report));
  return capture;
}

Result<RunnerCapture> ModelProxy::create_eager(KvCache& kv, const CaptureOptions& options) {
  return create_runner(context_->table.eager_create, RunnerKind::kEager, kv, options);
}

Result<RunnerCapture> ModelProxy::capture_prefill(KvCache& kv, const CaptureOptions& options) {
  return create_runner(context_->table.prefill_capture, RunnerKind::kPrefillGraph, kv, options);
}

Result<RunnerCapture> ModelProxy::capture_decode(KvCache& kv, const CaptureOptions& options) {
  return create_runner(context_->table.decode_capture, RunnerKind::kDecodeGraph, kv, options);
}

Status ModelProxy::set_layer_observer(LayerObserver observer) {
  if (context_->observers.set_observer == nullptr) {
    if (!observer) return {};
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_LAYER_OBSERVERS);
  }
  // The old observer stays until the plugin has let go of it.
  auto replacement = observer ? std::make_unique<LayerObserver>(std::move(observer)) : nullptr;
  const encore_layer_observer_fn function = replacement ? observe : nullptr;
  ENCORE_RETURN_IF_ERROR(abi_call(context_->observers.set_observer, handle_, function,
                                  static_cast<void*>(replacement.get())));
  observer_ = std::move(replacement);
  return {};
}

void ModelProxy::observe(void* context, const encore_layer_output* output) noexcept {
  try {
    const encore_layer_output in = sdk::read_sized(output);
    const bool sane =
        in.layer >= 0 && in.num_tokens >= 0 && in.hidden_size >= 0 &&
        static_cast<uint64_t>(in.num_tokens) * static_cast<uint64_t>(in.hidden_size) ==
            in.hidden_count;
    if (!sane) {
      plugin_log(sdk::LogLevel::kError, "a plugin described a layer output of " +
                                            std::to_string(in.hidden_count) + " elements as " +
                                            std::to_string(in.num_tokens) + " x " +
                                            std::to_string(in.hidden_size) + "; it is not shown");
      return;
    }
    (*static_cast<const LayerObserver*>(context))({.layer = in.layer,
                                                   .num_tokens = in.num_tokens,
                                                   .hidden_size = in.hidden_size,
                                                   .hidden = in.hidden});
  } catch (const std::exception& exception) {
    plugin_log(sdk::LogLevel::kError, std::string("a layer observer threw: ") + exception.what());
  } catch (...) {
    plugin_log(sdk::LogLevel::kError, "a layer observer threw");
  }
}

Status ModelProxy::check_guards() const {
  if (context_->guards.check == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_GUARDS);
  }
  return abi_call(context_->guards.check, handle_);
}

Status ModelProxy::fail_capture(int32_t bucket, Reason reason) {
  if (context_->faults.fail_capture == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_FAULT_INJECTION);
  }
  return abi_call(context_->faults.fail_capture, handle_, bucket, static_cast<int32_t>(reason));
}

}  // namespace encore
