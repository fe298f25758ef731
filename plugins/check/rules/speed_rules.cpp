// Rules P: speed of a model of medium size, reported and not judged.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "equality_rig.h"

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 512;
constexpr int32_t kDecodePrompt = 64;
constexpr int32_t kDecodeSteps = 64;
constexpr int32_t kMostRequests = 8;
constexpr double kEnoughSeconds = 1.0;  // a slow device is measured with fewer rounds

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct SpeedRun {
  Subject& subject;
  int32_t decode_steps = 0;
  Outcome outcome;

  Runner& prefill() {
    const auto& captured = subject.runners.prefill;
    return captured.has_value() ? *captured->runner : subject.eager();
  }
  Runner& decode() {
    const auto& captured = subject.runners.decode;
    return captured.has_value() ? *captured->runner : subject.eager();
  }
  void report(std::string name, double value, std::string unit) {
    outcome.measurements.push_back({std::move(name), value, std::move(unit)});
  }
};

// bf16 weights of about 8 MB; f32 where a device takes no bf16.
RandomModel medium_model(const EqualityRun& run) {
  ModelOverrides medium;
  medium.hidden_size = 256;
  medium.intermediate_size = 768;
  medium.num_layers = 4;
  medium.num_heads = 8;
  medium.num_kv_heads = 2;
  medium.vocab_size = 2048;
  RandomModel random = random_model(Family::kLlama, 1, DType::kBF16, medium);
  const bool taken = run.session.backend()
                         .check_model(run.session.device(), random.spec, random.weights->weights())
                         .ok();
  return taken ? random : model_for(run, Family::kLlama, 1, medium);
}

RunnerSetOptions medium_options() {
  RunnerSetOptions options = small_options();
  options.prefill = true;
  options.decode = true;
  options.kv.num_pages = 400;
  options.kv.dtype = DType::kInvalid;
  RunnerLimits& limits = options.capture.limits;
  limits.max_requests = kMostRequests;
  limits.max_tokens = kPromptLength;
  limits.max_context = kPromptLength + kDecodeSteps + 16;
  options.capture.prefill_buckets = {kDecodePrompt, kPromptLength};
  options.capture.decode_buckets = {1, kMostRequests};
  return options;
}

// Steps that want no logits, as in serving.
StepOptions tokens_only() {
  StepOptions options;
  options.whole_logits = false;
  return options;
}

Status measure_prefill(SpeedRun& speed) {
  constexpr int32_t kRounds = 2;
  double best = 0.0;
  for (int32_t round = 0; round <= kRounds; ++round) {
    Request request = make_request(random_tokens(1, kPromptLength, speed.subject.vocab_size()));
    const Work work{&request, kPromptLength};
    const Clock::time_point start = Clock::now();
    ENCORE_RETURN_IF_ERROR(
        speed.subject.driver->run(speed.prefill(), {&work, 1}, tokens_only()).status());
    const double seconds = seconds_since(start);
    best = std::max(best, kPromptLength / seconds);
    speed.subject.driver->finish(request);
    if (seconds > kEnoughSeconds) break;
  }
  speed.report("prefill_tokens_per_s", best, "tokens/s");
  return {};
}

Status measure_decode(SpeedRun& speed, int32_t batch) {
  std::vector<Request> requests;
  std::vector<Work> work;
  requests.reserve(static_cast<size_t>(batch));
  for (int32_t i = 0; i < batch; ++i) {
    requests.push_back(make_request(
        random_tokens(static_cast<uint64_t>(i), kDecodePrompt, speed.subject.vocab_size())));
  }
  for (Request& request : requests) {
    const Work prompt{&request, kDecodePrompt};
    ENCORE_RETURN_IF_ERROR(
        speed.subject.driver->run_and_append(speed.prefill(), {&prompt, 1}, tokens_only())
            .status());
    work.push_back({&request, 1});
  }
  const Clock::time_point start = Clock::now();
  int32_t num_steps = 0;
  while (num_steps < speed.decode_steps && seconds_since(start) < kEnoughSeconds) {
    ENCORE_RETURN_IF_ERROR(
        speed.subject.driver->run_and_append(speed.decode(), work, tokens_only()).status());
    ++num_steps;
  }
  const double rate = batch * num_steps / seconds_since(start);
  speed.report("decode_tokens_per_s_batch_" + std::to_string(batch), rate, "tokens/s");
  for (Request& request : requests) speed.subject.driver->finish(request);
  return {};
}

// How long the caller is held by submit(), the median of several steps.
Status measure_submit(SpeedRun& speed) {
  Request request = make_request(random_tokens(2, kDecodeSteps, speed.subject.vocab_size()));
  std::vector<double> times_us;
  while (request.cached < speed.decode_steps) {
    const Work work{&request, 1};
    ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch,
                            speed.subject.driver->batch_of({&work, 1}, tokens_only()));
    OwnedOutput output(1, speed.subject.vocab_size(), tokens_only());
    const StepOutput target = output.view();
    const Clock::time_point start = Clock::now();
    ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, speed.decode().submit(batch.view(), target));
    times_us.push_back(1e6 * seconds_since(start));
    ENCORE_RETURN_IF_ERROR(speed.decode().wait(ticket, -1));
    ++request.cached;
  }
  std::sort(times_us.begin(), times_us.end());
  speed.report("submit_us", times_us[times_us.size() / 2], "us");
  speed.subject.driver->finish(request);
  return {};
}

void report_capture(SpeedRun& speed, const std::optional<RunnerCapture>& capture,
                    const std::string& name) {
  if (!capture.has_value()) return;
  for (const BucketReport& bucket : capture->report.buckets) {
    if (bucket.reason != Reason::kNone) continue;
    speed.report(name + "_capture_ms_bucket_" + std::to_string(bucket.bucket),
                 static_cast<double>(bucket.capture_us) / 1e3, "ms");
  }
}

Status measure(SpeedRun& speed) {
  ENCORE_RETURN_IF_ERROR(measure_prefill(speed));
  for (const int32_t batch : {1, kMostRequests}) {
    ENCORE_RETURN_IF_ERROR(measure_decode(speed, batch));
  }
  ENCORE_RETURN_IF_ERROR(measure_submit(speed));
  report_capture(speed, speed.subject.runners.prefill, "prefill");
  report_capture(speed, speed.subject.runners.decode, "decode");
  return {};
}

Outcome speed_of_a_medium_model(const CheckContext& context) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  const EqualityRun run{context, session};
  const auto subject = load_subject(run, medium_model(run), medium_options());
  if (!subject.ok()) return skip(subject.status().message());
  SpeedRun speed{**subject, context.quick ? kDecodeSteps / 4 : kDecodeSteps, {}};
  const Status measured = measure(speed);
  if (!measured.ok()) return skip(measured.message());
  return std::move(speed.outcome);
}

constexpr std::array kRules = {
    Rule{"P01", "Speed of prefill, decode, capture and submit() on a medium model",
         speed_of_a_medium_model, 120},
};

}  // namespace

std::span<const Rule> speed_rules() { return kRules; }

}  // namespace encore::check
