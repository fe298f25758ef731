// Rules R on how weights, keys and values are stored.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 40;
constexpr std::array kWeightTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0,
                                     DType::kQ4_0};

// Errors: kUnimplemented if the plugin does not take the model.
Status check_model_logits(const EqualityRun& run, RandomModel random,
                          const RunnerSetOptions& options, const std::string& what) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, make_subject(run, std::move(random), options));
  const KvInfo kv = subject->runners.kv->info();
  const bool asked = options.kv.dtype != DType::kInvalid && kv.dtype != DType::kInvalid;
  if (asked && kv.dtype != options.kv.dtype) {
    return unimplemented("the plugin offers no " + what);
  }
  Request request = make_request(random_tokens(41, kPromptLength, subject->vocab_size()));
  ENCORE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                          run_to(*subject, subject->eager(), request, kPromptLength));
  // What a step of one token shows of the cache's rounding is not all of it.
  const bool short_values = kv.dtype != DType::kF32 && subject->limit.max < kReducedLimit.max;
  return same_logits(logits, subject->reference().last_logits(request.tokens),
                     short_values ? kReducedLimit : subject->limit, what);
}

Status needs_base(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto base,
                          make_subject(run, model_for(run, Family::kLlama), small_options()));
  return needs_right_logits(*base);
}

// Of several checks, at least one must be of something that the plugin offers.
class Offers {
 public:
  // Errors: those of `status` that break the rule.
  Status add(const Status& status) {
    if (status.ok()) ++num_offered_;
    return status.code() == StatusCode::kUnimplemented ? Status() : status;
  }
  Status end(const std::string& what) const {
    return num_offered_ > 0 ? Status() : not_judged("the plugin takes no " + what);
  }

 private:
  int32_t num_offered_ = 0;
};

}  // namespace

Status weight_types_equal_reference(const EqualityRun& run) {
  ENCORE_RETURN_IF_ERROR(needs_base(run));
  Offers offers;
  for (const DType dtype : kWeightTypes) {
    RandomModel random = random_model(Family::kLlama, 3, dtype);
    const std::string what = "weights in " + std::string(dtype_name(dtype));
    ENCORE_RETURN_IF_ERROR(
        offers.add(check_model_logits(run, std::move(random), small_options(), what)));
  }
  return offers.end("weights in f32, f16, bf16, q8_0 or q4_0");
}

Status cache_types_equal_reference(const EqualityRun& run) {
  ENCORE_RETURN_IF_ERROR(needs_base(run));
  Offers offers;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int32_t page_size : {16, 32, 64}) {
      RunnerSetOptions options = small_options();
      options.kv.dtype = dtype;
      options.kv.page_size = page_size;
      const std::string what = "KV cache in " + std::string(dtype_name(dtype)) + " with pages of " +
                               std::to_string(page_size);
      ENCORE_RETURN_IF_ERROR(
          offers.add(check_model_logits(run, model_for(run, Family::kLlama), options, what)));
    }
  }
  return offers.end("KV cache in f32, f16 or bf16 with pages of 16, 32 or 64");
}

Status unmapped_weights_are_read(const EqualityRun& run) {
  ENCORE_RETURN_IF_ERROR(needs_base(run));
  ModelOverrides overrides;
  overrides.mappable = false;
  return check_model_logits(run, model_for(run, Family::kLlama, 1, overrides), small_options(),
                            "weights that can be read and not mapped");
}

}  // namespace encore::check
