// encore bench CONFIG: tokens per second of each kind of runner, against the device's limits.
// (`encore bench serve`, which measures a server from outside, is bench_serve.cpp's.)
//
// Steps are made directly, without the engine: what is timed is the runner. The device's limits
// are measured in the same run, because a shared machine changes from minute to minute.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench_measure.h"
#include "bench_report.h"
#include "bench_serve.h"
#include "config_flags.h"
#include "exit_code.h"
#include "interrupt.h"
#include "logging.h"
#include "progress.h"
#include "session.h"
#include "verbs.h"

namespace encore {
namespace {

struct BenchFlags {
  ConfigFlags config;
  int32_t prompt = 512;
  int32_t generate = 128;
  std::vector<int32_t> depths = {0};
  std::vector<int32_t> batches = {1, 4};
  int32_t repetitions = 5;
  std::vector<std::string> runners = {"eager", "prefill_full", "prefill_breakable", "decode_graph"};
  bool json = false;
  bool csv = false;
};

// A runner under test, or why there is none.
struct Candidate {
  std::string name;
  std::shared_ptr<Runner> runner;
  std::string missing;
  bool for_prompts = false;
  bool for_generation = false;
};

// Multiply-adds of the linears that every token passes, and those of the head, times two.
struct ModelOps {
  double per_token = 0.0;
  double per_logit_row = 0.0;
};

ModelOps count_ops(const ModelFiles& files) {
  ModelOps ops;
  for (const WeightInfo& weight : files.weights->weights()) {
    if (weight.shape.size() != 2 || weight.name.rfind("layers.", 0) != 0) continue;
    ops.per_token +=
        2.0 * static_cast<double>(weight.shape[0]) * static_cast<double>(weight.shape[1]);
  }
  ops.per_logit_row = 2.0 * static_cast<double>(files.spec.vocab_size) *
                      static_cast<double>(files.spec.hidden_size);
  return ops;
}

// Tokens of the longest request.
int32_t longest_of(const BenchFlags& flags) {
  const int32_t deepest = *std::max_element(flags.depths.begin(), flags.depths.end());
  return std::max(flags.prompt, deepest + flags.generate);
}

// The configuration with room for the largest test.
LoadedConfig sized_for(const LoadedConfig& loaded, const BenchFlags& flags) {
  LoadedConfig sized = loaded;
  SchedulerConfig& scheduler = sized.config.scheduler;
  scheduler.max_running_requests = *std::max_element(flags.batches.begin(), flags.batches.end());
  scheduler.max_tokens_per_step =
      std::max(scheduler.max_tokens_per_step, scheduler.max_running_requests);
  scheduler.max_context = longest_of(flags);
  const int64_t page_size = sized.config.kv_cache.page_size;
  const int64_t pages = (scheduler.max_context + page_size - 1) / page_size;
  sized.config.kv_cache.max_tokens = pages * page_size * scheduler.max_running_requests;
  return sized;
}

class Bench {
 public:
  Bench(const BenchFlags& flags, Session& session)
      : flags_(flags), session_(session), stepper_(sizes(session)) {}

  Result<std::vector<BenchResult>> measure() {
    ENCORE_ASSIGN_OR_RETURN(limits_,
                            session_.backend().measure_limits(session_.config().backend.device));
    ENCORE_RETURN_IF_ERROR(collect());
    std::vector<BenchResult> results;
    for (const int32_t batch : flags_.batches) {
      for (const Candidate& candidate : candidates_) {
        if (interrupted()) return results;
        if (candidate.for_prompts && flags_.prompt > 0) {
          ENCORE_RETURN_IF_ERROR(measure_one(candidate, batch, -1, results));
        }
        if (!candidate.for_generation || flags_.generate == 0) continue;
        for (const int32_t depth : flags_.depths) {
          if (interrupted()) return results;
          ENCORE_RETURN_IF_ERROR(measure_one(candidate, batch, depth, results));
        }
      }
    }
    return results;
  }

  const DeviceLimits& limits() const { return limits_; }

 private:
  static BenchSizes sizes(Session& session) {
    BenchSizes sizes;
    const KvInfo kv = session.kv().info();
    sizes.page_size = kv.page_size;
    sizes.pages_a_request = (session.max_context() + kv.page_size - 1) / kv.page_size;
    sizes.max_tokens = session.capture_options().limits.max_tokens;
    sizes.num_valid_tokens = session.num_valid_tokens();
    return sizes;
  }

  Status collect() {
    const GraphsCapture& graphs = session_.graphs();
    for (const std::string& name : flags_.runners) {
      Candidate candidate;
      candidate.name = name;
      if (name == "eager") {
        candidate.runner = graphs.eager.runner;
        candidate.for_prompts = candidate.for_generation = true;
      } else if (name == "decode_graph") {
        candidate.for_generation = true;
        candidate.runner = graphs.decode.runner;
        if (candidate.runner == nullptr) candidate.missing = "capture.decode is false";
      } else {
        candidate.for_prompts = true;
        find_prefill(name == "prefill_full" ? PrefillMode::kFull : PrefillMode::kBreakable,
                     candidate);
      }
      candidates_.push_back(std::move(candidate));
    }
    return {};
  }

  // The session's prefill graph if it has this mode, else one captured for the bench.
  void find_prefill(PrefillMode mode, Candidate& candidate) {
    const GraphsCapture& graphs = session_.graphs();
    if (graphs.prefill.mode == mode) {
      candidate.runner = graphs.prefill.runner;
      return;
    }
    CaptureOptions options = session_.capture_options();
    options.prefill_mode = mode;
    Result<PrefillCapture> capture =
        capture_prefill_graph(session_.model(), session_.kv(), options);
    if (capture.ok()) {
      candidate.runner = capture->runner;
    } else {
      candidate.missing = capture.status().message();
    }
  }

  // depth < 0: whole prompts; else generation after so many tokens.
  Result<BenchSample> repeat(const Candidate& candidate, int32_t batch, int32_t depth) {
    if (depth < 0) return stepper_.prompts(*candidate.runner, batch, flags_.prompt);
    return stepper_.generation(*candidate.runner, batch, depth, flags_.generate);
  }

  Status measure_one(const Candidate& candidate, int32_t batch, int32_t depth,
                     std::vector<BenchResult>& results) {
    const bool prompts = depth < 0;
    BenchResult result;
    result.depth = std::max(depth, 0);
    result.length = prompts ? flags_.prompt : flags_.generate;
    result.test = (prompts ? "prompt " : "generate ") + std::to_string(result.length);
    if (depth > 0) result.test += " after " + std::to_string(depth);
    result.runner = candidate.name;
    result.batch = batch;
    result.skipped = candidate.missing;
    Progress progress(result.test + " on " + candidate.name + ", batch " + std::to_string(batch),
                      false);
    std::vector<double> step_us;
    // One more than asked for: the first warms caches and is not counted.
    for (int32_t i = 0; i <= flags_.repetitions && result.skipped.empty(); ++i) {
      if (interrupted()) break;
      ENCORE_ASSIGN_OR_RETURN(const BenchSample sample, repeat(candidate, batch, depth));
      if (sample.reason != Reason::kNone) {
        result.skipped = reason_name(sample.reason);
        break;
      }
      progress.update(i, flags_.repetitions);
      if (i == 0) continue;
      const double tokens = static_cast<double>(batch) * result.length;
      result.samples_tokens_per_s.push_back(tokens / sample.seconds);
      step_us.push_back(sample.seconds * 1e6 / static_cast<double>(sample.steps));
    }
    result.tokens_per_s = statistics_of(result.samples_tokens_per_s);
    result.step_us = statistics_of(step_us).median;
    if (!result.samples_tokens_per_s.empty()) add_rates(prompts, result);
    results.push_back(std::move(result));
    return {};
  }

  // What a step reads and computes, and how near that is to either limit.
  void add_rates(bool prompts, BenchResult& result) const {
    const KvInfo kv = session_.kv().info();
    const ModelOps ops = count_ops(session_.files());
    const double token_bytes =
        static_cast<double>(kv.page_bytes) / static_cast<double>(kv.page_size);
    const double cached = prompts ? 0.0 : result.depth + (1.0 + result.length) / 2.0;
    const double step_bytes = static_cast<double>(session_.model().info().step_weight_bytes) +
                              token_bytes * cached * result.batch;
    result.bytes_per_s = step_bytes * 1e6 / result.step_us;
    const double rows_a_token = prompts ? 1.0 / static_cast<double>(result.length) : 1.0;
    result.ops_per_s =
        result.tokens_per_s.median * (ops.per_token + ops.per_logit_row * rows_a_token);
    if (limits_.read_bytes_per_s > 0.0) {
      result.share_of_peak = result.bytes_per_s / limits_.read_bytes_per_s;
    }
    if (limits_.matmul_ops_per_s > 0.0) {
      result.share_of_peak =
          std::max(result.share_of_peak, result.ops_per_s / limits_.matmul_ops_per_s);
    }
  }

  const BenchFlags& flags_;
  Session& session_;
  BenchStepper stepper_;
  DeviceLimits limits_;
  std::vector<Candidate> candidates_;
};

Result<int> bench(const BenchFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  catch_interrupts();
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::open(sized_for(loaded, flags)));
  const int32_t longest = longest_of(flags);
  if (session->max_context() < longest) {
    return invalid_argument("the tests need a context of " + std::to_string(longest) +
                            " tokens; the model's limit is " +
                            std::to_string(session->max_context()) + ": lower -p, -g or -d");
  }
  Bench bench(flags, *session);
  ENCORE_ASSIGN_OR_RETURN(const std::vector<BenchResult> results, bench.measure());
  ENCORE_ASSIGN_OR_RETURN(const DeviceInfo device,
                          session->backend().device_info(loaded.config.backend.device));
  BenchHeader header;
  header.model = loaded.config.model.path;
  header.backend = loaded.config.backend.name;
  header.device = device.name + " (" + device.architecture + ")";
  header.limits = bench.limits();
  header.repetitions = flags.repetitions;
  const std::string text = flags.json  ? bench_json(header, results) + "\n"
                           : flags.csv ? bench_csv(results)
                                       : bench_table(header, results);
  std::fputs(text.c_str(), stdout);
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

void declare_bench(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("bench", "Measure the speed of each kind of runner");
  auto flags = std::make_shared<BenchFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kRequired);
  verb->add_option("-p,--prompt-length", flags->prompt, "Tokens of each prompt; 0: no such test")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  verb->add_option("-g,--generate", flags->generate, "Decode steps; 0: no such test")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  verb->add_option("-d,--depth", flags->depths, "Tokens in the cache before generation")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->allow_extra_args(false)
      ->capture_default_str();
  verb->add_option("-b,--batch", flags->batches, "Batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->allow_extra_args(false)
      ->capture_default_str();
  verb->add_option("-r,--repetitions", flags->repetitions, "Timed repetitions of each test")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("-m,--mode,--runner", flags->runners, "Kinds of runner")
      ->delimiter(',')
      ->check(CLI::IsMember({"eager", "prefill_full", "prefill_breakable", "decode_graph"}))
      ->allow_extra_args(false)
      ->capture_default_str();
  CLI::Option* json = verb->add_flag("--json", flags->json, "One JSON object on stdout");
  verb->add_flag("--csv", flags->csv, "CSV on stdout")->excludes(json);
  // A positional argument that CLI11 knows to be required would swallow the word "serve".
  CLI::Option* config = verb->get_option("config")->required(false);
  const CLI::App& serve = declare_bench_serve(*verb, action);
  verb->callback([flags, &action, &serve, config] {
    if (serve.parsed()) return;
    if (config->empty()) throw CLI::RequiredError(config->get_name());
    action = [flags] {
      const Result<int> result = bench(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace encore
