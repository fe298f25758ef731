#include "raw_run.h"

#include <cmath>
#include <numeric>

#include "encore/sdk/abi_struct.h"
#include "to_abi.h"

namespace encore::check {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kNumPages = 16;
constexpr int32_t kPromptTokens = 20;
constexpr int32_t kDecodeSteps = 3;
constexpr int64_t kWaitUs = 30'000'000;
constexpr float kRoundingTolerance = 1e-3F;

encore_runner_limits small_limits() {
  return {.struct_size = sizeof(encore_runner_limits),
          .max_requests = 4,
          .max_tokens = 32,
          .max_context = 64,
          .max_logprobs = 0,
          .max_history = 0,
          .max_biases = 0};
}

// One request, alone in its step, on pages 0, 1, 2, ...
class Steps {
 public:
  Steps(const RawSession& session, int64_t vocab_size, Tailor& tailor)
      : session_(session), tailor_(tailor), vocab_size_(vocab_size) {}

  // Runs one step of `tokens` after those already in the cache; its last row is sampled.
  Status run(encore_runner* runner, const std::vector<int32_t>& tokens, RawRun* run) {
    const auto count = static_cast<int32_t>(tokens.size());
    std::vector<int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), cached_);
    const int32_t total = cached_ + count;
    std::vector<int32_t> pages(static_cast<size_t>((total + kPageSize - 1) / kPageSize));
    std::iota(pages.begin(), pages.end(), 0);
    const std::vector<int32_t> q_start = {0, count};
    const std::vector<int32_t> page_start = {0, static_cast<int32_t>(pages.size())};
    const std::vector<int32_t> logit_rows = {count - 1};
    RowSampling greedy;
    greedy.position = total;
    ForwardBatch batch;
    batch.token_ids = tokens;
    batch.positions = positions;
    batch.q_start = q_start;
    batch.kv_len = {&total, 1};
    batch.page_start = page_start;
    batch.page_ids = pages;
    batch.logit_rows = logit_rows;
    batch.num_valid_tokens = static_cast<int32_t>(vocab_size_);
    encore_forward_batch abi_batch = batch_to_abi(batch);
    const std::vector<encore_row_sampling> rows(
        1, *elements_to_abi<encore_row_sampling>(std::span<const RowSampling>(&greedy, 1)));
    abi_batch.sampling = tailor_.array(rows);
    abi_batch.sampling_count = 1;
    abi_batch.sampling_stride = tailor_.stride<encore_row_sampling>();
    cached_ = total;
    return submit(runner, tailor_.fit(abi_batch), run);
  }

 private:
  Status submit(encore_runner* runner, const encore_forward_batch* batch, RawRun* run) {
    const encore_backend_table& table = session_.table();
    int32_t token = -1;
    int32_t row_status = -1;
    run->logits.assign(static_cast<size_t>(vocab_size_), NAN);
    StepOutput output;
    output.tokens = {&token, 1};
    output.row_status = {&row_status, 1};
    output.logits = run->logits;
    const encore_step_output* abi_output = tailor_.fit(step_output_to_abi(output));
    auto verdict = sdk::sized<encore_runner_verdict>();
    ENCORE_RETURN_IF_ERROR(
        raw_call(table.runner_check, runner, batch, abi_output, &verdict).status());
    if (verdict.reason != ENCORE_REASON_NONE) {
      return failed_precondition("runner_check answers reason " + std::to_string(verdict.reason) +
                                 " to a step of one request");
    }
    uint64_t ticket = 0;
    ENCORE_RETURN_IF_ERROR(
        raw_call(table.runner_submit, runner, batch, abi_output, &ticket).status());
    ENCORE_RETURN_IF_ERROR(raw_call(table.runner_wait, runner, ticket, kWaitUs).status());
    if (row_status != ENCORE_ROW_OK) {
      return internal_error("a row's status is " + std::to_string(row_status));
    }
    run->tokens.push_back(token);
    return {};
  }

  const RawSession& session_;
  Tailor& tailor_;
  int64_t vocab_size_;
  int32_t cached_ = 0;
};

// The runner of a mode, or null if the device does not offer it.
Result<RawRunner> optional_runner(const RawSession& session, uint64_t capability,
                                  RawCapture capture, encore_model* model, encore_kv* kv,
                                  Tailor& tailor) {
  auto info = sdk::sized<encore_device_info>();
  const encore_backend_table& table = session.table();
  ENCORE_RETURN_IF_ERROR(
      raw_call(table.device_info, table.backend, session.device(), &info).status());
  if ((info.capabilities & capability) == 0) return RawRunner(nullptr, table.runner_free);
  return raw_runner(session, capture, model, kv, tailor);
}

}  // namespace

RandomModel small_model() { return random_model(Family::kLlama, 7, DType::kF32); }

Result<RawModel> raw_load(const RawSession& session, const RandomModel& model,
                          const WeightBridge& bridge, Tailor& tailor) {
  const encore_backend_table& table = session.table();
  const encore_model_spec* spec = tailor.fit(model_spec_to_abi(model.spec));
  encore_weight_source source = *bridge.abi();
  const std::vector<encore_weight_info> infos(source.weights,
                                              source.weights + source.weights_count);
  source.weights = tailor.array(infos);
  source.weights_stride = tailor.stride<encore_weight_info>();
  const encore_load_options options = {.struct_size = sizeof(encore_load_options),
                                       .tensor_parallel_rank = 0,
                                       .tensor_parallel_size = 1,
                                       .progress = nullptr,
                                       .progress_context = nullptr};
  ENCORE_RETURN_IF_ERROR(raw_call(table.model_check, table.backend, session.device(), spec,
                                  source.weights, source.weights_count, source.weights_stride)
                             .status());
  encore_model* handle = nullptr;
  ENCORE_RETURN_IF_ERROR(raw_call(table.model_load, table.backend, session.device(), spec,
                                  tailor.fit(source), tailor.fit(options), &handle)
                             .status());
  if (handle == nullptr) return internal_error("model_load succeeded without a model");
  return RawModel(handle, table.model_free);
}

Result<RawKv> raw_kv(const RawSession& session, encore_model* model, Tailor& tailor) {
  const encore_backend_table& table = session.table();
  const encore_kv_options options = {.struct_size = sizeof(encore_kv_options),
                                     .num_pages = kNumPages,
                                     .page_size = kPageSize,
                                     .dtype = 0,
                                     .guards = 0};
  encore_kv* handle = nullptr;
  ENCORE_RETURN_IF_ERROR(raw_call(table.kv_create, model, tailor.fit(options), &handle).status());
  if (handle == nullptr) return internal_error("kv_create succeeded without a cache");
  return RawKv(handle, table.kv_free);
}

Result<RawRunner> raw_runner(const RawSession& session, RawCapture capture, encore_model* model,
                             encore_kv* kv, Tailor& tailor) {
  encore_capture_options options{};
  options.struct_size = sizeof(options);
  options.limits = tailor.fit(small_limits());
  options.prefill_mode = ENCORE_PREFILL_FULL;
  options.padding = 1;
  encore_runner* handle = nullptr;
  const encore_capture_report* report = nullptr;
  ENCORE_RETURN_IF_ERROR(
      raw_call(capture, model, kv, tailor.fit(options), &handle, &report).status());
  if (handle == nullptr || report == nullptr) {
    return internal_error("a capture succeeded without a runner or without a report");
  }
  return RawRunner(handle, session.table().runner_free);
}

Result<RawRun> raw_run(const RawSession& session, Tailor& tailor) {
  const encore_backend_table& table = session.table();
  const RandomModel model = small_model();
  const WeightBridge bridge(*model.weights);
  ENCORE_ASSIGN_OR_RETURN(const RawModel loaded, raw_load(session, model, bridge, tailor));
  ENCORE_ASSIGN_OR_RETURN(const RawKv kv, raw_kv(session, loaded.get(), tailor));
  ENCORE_ASSIGN_OR_RETURN(const RawRunner eager,
                          raw_runner(session, table.eager_create, loaded.get(), kv.get(), tailor));
  ENCORE_ASSIGN_OR_RETURN(const RawRunner prefill,
                          optional_runner(session, ENCORE_CAPABILITY_PREFILL_FULL,
                                          table.prefill_capture, loaded.get(), kv.get(), tailor));
  ENCORE_ASSIGN_OR_RETURN(const RawRunner decode,
                          optional_runner(session, ENCORE_CAPABILITY_DECODE_GRAPH,
                                          table.decode_capture, loaded.get(), kv.get(), tailor));
  RawRun run;
  Steps steps(session, model.spec.vocab_size, tailor);
  std::vector<int32_t> prompt(kPromptTokens);
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<int32_t>((i * 37 + 11) % static_cast<size_t>(model.spec.vocab_size));
  }
  ENCORE_RETURN_IF_ERROR(steps.run(prefill ? prefill.get() : eager.get(), prompt, &run));
  for (int32_t i = 0; i < kDecodeSteps; ++i) {
    ENCORE_RETURN_IF_ERROR(
        steps.run(decode ? decode.get() : eager.get(), {run.tokens.back()}, &run));
  }
  return run;
}

std::string run_difference(const RawRun& expected, const RawRun& found) {
  const auto text = [](const std::vector<int32_t>& tokens) {
    std::string list;
    for (const int32_t token : tokens) list.append(" ").append(std::to_string(token));
    return list;
  };
  if (expected.tokens != found.tokens) {
    return "the tokens were" + text(expected.tokens) + " and are" + text(found.tokens);
  }
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    if (!(std::fabs(expected.logits[i] - found.logits[i]) <= kRoundingTolerance)) {
      return "logit " + std::to_string(i) + " was " + std::to_string(expected.logits[i]) +
             " and is " + std::to_string(found.logits[i]);
    }
  }
  return "";
}

}  // namespace encore::check
