#include "encore/capture.h"

#include <string>
#include <utility>

#include "encore/buckets.h"

namespace encore {
namespace {

// Sorted and checked against `maximum`; the defaults if none were given.
Result<std::vector<int32_t>> complete_buckets(const char* what, const std::vector<int32_t>& given,
                                              const std::vector<int32_t>& defaults,
                                              int32_t maximum) {
  auto buckets = Buckets::create(given.empty() ? defaults : given, maximum);
  if (!buckets.ok()) {
    return buckets.status().retold(std::string(what) + ": " + buckets.status().message());
  }
  return std::vector<int32_t>(buckets->sizes().begin(), buckets->sizes().end());
}

Result<CaptureOptions> complete(const CaptureOptions& options) {
  CaptureOptions completed = options;
  ENCORE_ASSIGN_OR_RETURN(completed.prefill_buckets,
                          complete_buckets("prefill_buckets", options.prefill_buckets,
                                           default_prefill_buckets(options.limits.max_tokens),
                                           options.limits.max_tokens));
  ENCORE_ASSIGN_OR_RETURN(completed.decode_buckets,
                          complete_buckets("decode_buckets", options.decode_buckets,
                                           default_decode_buckets(options.limits.max_requests),
                                           options.limits.max_requests));
  return completed;
}

// A backend's answer, once it is certain that there is a runner in it.
Result<RunnerCapture> checked(Result<RunnerCapture> capture, RunnerKind kind) {
  if (!capture.ok()) return capture.status();
  const std::string name(runner_kind_name(kind));
  if (capture->runner == nullptr) {
    return internal_error("the backend reports success for its " + name +
                          " runner and gives none; the plugin is defective");
  }
  if (capture->runner->kind() != kind) {
    return internal_error("the backend was asked for a " + name + " runner and gives a " +
                          std::string(runner_kind_name(capture->runner->kind())) +
                          " runner; the plugin is defective");
  }
  return capture;
}

}  // namespace

Result<PrefillCapture> capture_prefill_graph(Model& model, KvCache& kv,
                                             const CaptureOptions& options) {
  if (options.prefill_mode == PrefillMode::kOff) {
    return invalid_argument("capture.prefill is off, so there is no prefill graph to capture");
  }
  ENCORE_ASSIGN_OR_RETURN(const CaptureOptions completed, complete(options));
  ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture,
                          checked(model.capture_prefill(kv, completed), RunnerKind::kPrefillGraph));
  return PrefillCapture{std::move(capture.runner), options.prefill_mode, std::move(capture.report)};
}

Result<DecodeCapture> capture_decode_graph(Model& model, KvCache& kv,
                                           const CaptureOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(const CaptureOptions completed, complete(options));
  ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture,
                          checked(model.capture_decode(kv, completed), RunnerKind::kDecodeGraph));
  DecodeCapture decode;
  decode.runner = std::move(capture.runner);
  decode.graph_memory_bytes = capture.report.memory_bytes();
  decode.buckets = capture.report.buckets;
  decode.report = std::move(capture.report);
  return decode;
}

Result<GraphsCapture> capture_graphs(Model& model, KvCache& kv, const GraphsOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(const CaptureOptions completed, complete(options.capture));
  ENCORE_ASSIGN_OR_RETURN(RunnerCapture eager,
                          checked(model.create_eager(kv, completed), RunnerKind::kEager));
  GraphsCapture graphs;
  graphs.eager = {std::move(eager.runner), std::move(eager.report)};
  if (options.capture_decode && options.decode_first) {
    ENCORE_ASSIGN_OR_RETURN(graphs.decode, capture_decode_graph(model, kv, completed));
  }
  if (completed.prefill_mode == PrefillMode::kOff) {
    graphs.prefill = {graphs.eager.runner, PrefillMode::kOff, {}};
  } else {
    ENCORE_ASSIGN_OR_RETURN(graphs.prefill, capture_prefill_graph(model, kv, completed));
  }
  if (options.capture_decode && !options.decode_first) {
    ENCORE_ASSIGN_OR_RETURN(graphs.decode, capture_decode_graph(model, kv, completed));
  }
  return graphs;
}

}  // namespace encore
