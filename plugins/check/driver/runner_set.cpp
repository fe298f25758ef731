#include "runner_set.h"

#include <utility>

namespace encore::check {
namespace {

Status capture_into(std::optional<RunnerCapture>& target, bool wanted,
                    Result<RunnerCapture> (Model::*capture)(KvCache&, const CaptureOptions&),
                    Model& model, KvCache& kv, const CaptureOptions& options) {
  if (!wanted) return {};
  ENCORE_ASSIGN_OR_RETURN(target, (model.*capture)(kv, options));
  return {};
}

}  // namespace

RunnerSetOptions small_options() {
  RunnerSetOptions options;
  options.kv.num_pages = 64;
  options.kv.page_size = 16;
  options.kv.dtype = DType::kF32;
  RunnerLimits& limits = options.capture.limits;
  limits.max_requests = 8;
  limits.max_tokens = 64;
  limits.max_context = 128;
  limits.max_logprobs = 8;
  limits.max_history = 512;
  limits.max_biases = 512;
  options.capture.prefill_buckets = {16, 32, 64};
  options.capture.decode_buckets = {1, 2, 4, 8};
  return options;
}

Result<RunnerSet> make_runner_set(Model& model, const RunnerSetOptions& options) {
  RunnerSet set;
  Result<std::unique_ptr<KvCache>> kv = model.create_kv(options.kv);
  const bool dtype_refused = !kv.ok() && (kv.status().code() == StatusCode::kUnimplemented ||
                                          kv.status().code() == StatusCode::kInvalidArgument);
  if (dtype_refused && options.kv.dtype == DType::kF32) {
    KvOptions own = options.kv;
    own.dtype = DType::kInvalid;
    kv = model.create_kv(own);
  }
  ENCORE_ASSIGN_OR_RETURN(set.kv, std::move(kv));
  const CaptureOptions& capture = options.capture;
  KvCache& cache = *set.kv;
  ENCORE_RETURN_IF_ERROR(
      capture_into(set.eager, options.eager, &Model::create_eager, model, cache, capture));
  if (options.decode_first) {
    ENCORE_RETURN_IF_ERROR(
        capture_into(set.decode, options.decode, &Model::capture_decode, model, cache, capture));
  }
  ENCORE_RETURN_IF_ERROR(
      capture_into(set.prefill, options.prefill, &Model::capture_prefill, model, cache, capture));
  if (!options.decode_first) {
    ENCORE_RETURN_IF_ERROR(
        capture_into(set.decode, options.decode, &Model::capture_decode, model, cache, capture));
  }
  return set;
}

}  // namespace encore::check
