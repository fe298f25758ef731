#include "encore/lowering/lowered_model.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "bucket_capture.h"
#include "encore/lowering/runners.h"

namespace encore::lowering {
namespace {

Status check_positive(const char* name, int64_t value) {
  if (value > 0) return {};
  return invalid_argument(std::string(name) + " is " + std::to_string(value) +
                          "; it must be at least 1");
}

Status check_limits(const RunnerLimits& limits) {
  ENCORE_RETURN_IF_ERROR(check_positive("max_requests", limits.max_requests));
  ENCORE_RETURN_IF_ERROR(check_positive("max_tokens", limits.max_tokens));
  ENCORE_RETURN_IF_ERROR(check_positive("max_context", limits.max_context));
  if (limits.max_logprobs < 0 || limits.max_history < 0 || limits.max_biases < 0) {
    return invalid_argument("max_logprobs, max_history and max_biases must not be negative");
  }
  return {};
}

bool same_limits(const RunnerLimits& a, const RunnerLimits& b) {
  return a.max_requests == b.max_requests && a.max_tokens == b.max_tokens &&
         a.max_context == b.max_context && a.max_logprobs == b.max_logprobs &&
         a.max_history == b.max_history && a.max_biases == b.max_biases;
}

}  // namespace

std::byte* LoweredKvCache::layer_page(int32_t layer, int32_t page) const {
  const int64_t pages_per_layer = int64_t{info_.num_pages} + 1;
  return pages_->data() + (layer * pages_per_layer + page) * layer_page_bytes_;
}

Status LoweredKvCache::check_page(int32_t page) const {
  if (page >= 0 && page < info_.num_pages) return {};
  return invalid_argument("page is " + std::to_string(page) + "; it must be from 0 to " +
                          std::to_string(info_.num_pages - 1));
}

Status LoweredKvCache::copy_pages(std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    ENCORE_RETURN_IF_ERROR(check_page(copy.source));
    ENCORE_RETURN_IF_ERROR(check_page(copy.destination));
  }
  const std::lock_guard lock(device_.turn());
  for (const PageCopy& copy : copies) {
    for (int32_t layer = 0; layer < num_layers_; ++layer) {
      ENCORE_RETURN_IF_ERROR(device_.copy(layer_page(layer, copy.destination),
                                          layer_page(layer, copy.source), layer_page_bytes_));
    }
  }
  return {};
}

Status LoweredKvCache::read_page(int32_t page, std::span<std::byte> destination) const {
  ENCORE_RETURN_IF_ERROR(check_page(page));
  if (static_cast<int64_t>(destination.size()) != info_.page_bytes) {
    return invalid_argument("destination has " + std::to_string(destination.size()) +
                            " bytes; a page has " + std::to_string(info_.page_bytes));
  }
  const std::lock_guard lock(device_.turn());
  for (int32_t layer = 0; layer < num_layers_; ++layer) {
    ENCORE_RETURN_IF_ERROR(device_.copy_out(destination.data() + layer * layer_page_bytes_,
                                            layer_page(layer, page), layer_page_bytes_));
  }
  ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device_.mark());
  return device_.wait(mark, -1);
}

Result<std::unique_ptr<LoweredModel>> LoweredModel::load(std::unique_ptr<Device> device,
                                                         const ModelSpec& spec,
                                                         const WeightSource& source,
                                                         const LoadOptions& options,
                                                         const Shard& shard) {
  std::unique_ptr<LoweredModel> model(new LoweredModel(std::move(device)));
  ENCORE_ASSIGN_OR_RETURN(model->stack_, LayerStack::load(model->device_->ops(), spec, shard,
                                                          source, options.progress));
  return model;
}

DType LoweredModel::kv_dtype(const KvOptions& options) const {
  return options.dtype == DType::kInvalid ? device_->default_kv_dtype() : options.dtype;
}

Result<std::unique_ptr<KvCache>> LoweredModel::create_kv(const KvOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_positive("num_pages", options.num_pages));
  ENCORE_RETURN_IF_ERROR(check_positive("page_size", options.page_size));
  const std::lock_guard lock(device_->turn());
  const ModelSpec& spec = stack_->spec();
  std::unique_ptr<LoweredKvCache> kv(
      new LoweredKvCache(*device_, static_cast<int32_t>(spec.num_layers)));
  const DType dtype = kv_dtype(options);
  kv->layer_page_bytes_ = device_->kv_page_bytes(spec, options.page_size, dtype);
  const int64_t pages_per_layer = int64_t{options.num_pages} + 1;
  const int64_t bytes = spec.num_layers * pages_per_layer * kv->layer_page_bytes_;
  ENCORE_ASSIGN_OR_RETURN(
      kv->pages_, GuardedMemory::create(*device_, guards_, "KV cache", bytes, options.guards));
  ENCORE_ASSIGN_OR_RETURN(
      kv->description_,
      device_->describe_kv(spec, kv->pages_->data(), static_cast<int32_t>(pages_per_layer),
                           options.page_size, dtype));
  kv->info_ = {options.num_pages, options.page_size, spec.num_layers * kv->layer_page_bytes_,
               kv->pages_->device_bytes(), dtype};
  return std::unique_ptr<KvCache>(std::move(kv));
}

Result<MemoryPlan> LoweredModel::plan_memory(const KvOptions& kv, const CaptureOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_limits(options.limits));
  ENCORE_RETURN_IF_ERROR(check_positive("page_size", kv.page_size));
  const std::lock_guard lock(device_->turn());
  const ModelSpec& spec = stack_->spec();
  const RunnerLimits& limits = options.limits;
  MemoryPlan plan;
  plan.kv_page_bytes = spec.num_layers * device_->kv_page_bytes(spec, kv.page_size, kv_dtype(kv));
  plan.kv_fixed_bytes = plan.kv_page_bytes + (kv.guards ? 2 * GuardedMemory::kGuardBytes : 0);
  const KvInfo info{1, kv.page_size, plan.kv_page_bytes, plan.kv_page_bytes, kv_dtype(kv)};
  plan.runner_bytes =
      StepContext::planned_bytes(*device_, *stack_, info, {limits, options.poison, options.guards});
  int64_t added_bytes = 0;
  ENCORE_RETURN_IF_ERROR(
      device_->grow_workspace(spec, StepContext::workspace_of(limits, *stack_), &added_bytes)
          .status());
  planned_workspace_bytes_ += added_bytes;
  const auto count = [](const std::vector<int32_t>& given, const std::vector<int32_t>& defaults) {
    return static_cast<int64_t>(given.empty() ? defaults.size() : given.size());
  };
  int64_t buckets = count(options.decode_buckets, default_decode_buckets(limits.max_requests));
  if (options.prefill_mode != PrefillMode::kOff) {
    buckets += count(options.prefill_buckets, default_prefill_buckets(limits.max_tokens));
  }
  // Seven ops a layer, and as many before and after all of them.
  const auto num_ops = static_cast<int32_t>(7 * (spec.num_layers + 1));
  plan.executable_bytes = buckets * device_->guess_executable_bytes(num_ops);
  return plan;
}

Result<std::shared_ptr<StepContext>> LoweredModel::context_of(KvCache& kv,
                                                              const CaptureOptions& options,
                                                              CaptureReport* report) {
  ENCORE_RETURN_IF_ERROR(check_limits(options.limits));
  auto& cache = static_cast<LoweredKvCache&>(kv);
  if (cache.context_ == nullptr) {
    ENCORE_ASSIGN_OR_RETURN(
        std::unique_ptr<StepContext> context,
        StepContext::create(*device_, guards_, *stack_, cache.info_, cache.description_.get(),
                            {options.limits, options.poison, options.guards, faults_}, report));
    cache.context_ = std::move(context);
    report->workspace_bytes += planned_workspace_bytes_;
    planned_workspace_bytes_ = 0;
  } else if (!same_limits(cache.context_->options().limits, options.limits)) {
    return invalid_argument(
        "these limits differ from those of the KV cache's first runner; all runners of a cache "
        "share static buffers and so limits");
  }
  last_context_ = cache.context_;
  return cache.context_;
}

Result<RunnerCapture> LoweredModel::create_eager(KvCache& kv, const CaptureOptions& options) {
  const std::lock_guard lock(device_->turn());
  const auto start = std::chrono::steady_clock::now();
  RunnerCapture capture;
  ENCORE_ASSIGN_OR_RETURN(auto context, context_of(kv, options, &capture.report));
  ENCORE_RETURN_IF_ERROR(context->warm_up());
  capture.runner = std::make_unique<EagerRunner>(std::move(context), *stack_, observer_);
  capture.report.total_us = microseconds_since(start);
  return capture;
}

Result<RunnerCapture> LoweredModel::capture_prefill(KvCache& kv, const CaptureOptions& options) {
  const std::lock_guard lock(device_->turn());
  CaptureReport report;
  ENCORE_ASSIGN_OR_RETURN(auto context, context_of(kv, options, &report));
  ENCORE_RETURN_IF_ERROR(context->warm_up());
  return PrefillGraphRunner::capture(std::move(context), *stack_, options, observer_,
                                     std::move(report));
}

Result<RunnerCapture> LoweredModel::capture_decode(KvCache& kv, const CaptureOptions& options) {
  const std::lock_guard lock(device_->turn());
  CaptureReport report;
  ENCORE_ASSIGN_OR_RETURN(auto context, context_of(kv, options, &report));
  ENCORE_RETURN_IF_ERROR(context->warm_up());
  return DecodeGraphRunner::capture(std::move(context), *stack_, options, observer_,
                                    std::move(report));
}

Status LoweredModel::set_layer_observer(LayerObserver observer) {
  *observer_ = std::move(observer);
  return {};
}

Status LoweredModel::fail_capture(int32_t bucket, Reason reason) {
  const std::lock_guard lock(device_->turn());
  return faults_->set(bucket, reason);
}

Status LoweredModel::check_guards() const {
  const std::lock_guard lock(device_->turn());
  Status status = guards_.check(*device_);
  if (status.ok()) return status;
  const auto context = last_context_.lock();
  const uint64_t step = context == nullptr ? 0 : context->num_steps();
  return status.retold(status.message() + "; the last step was " + std::to_string(step));
}

}  // namespace encore::lowering
