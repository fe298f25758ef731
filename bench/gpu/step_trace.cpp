// Where one step's time goes, kernel by kernel: a model of real widths with random weights, through
// a plugin that traces steps.
//
//   step_trace --plugin=PATH [--shape=llama-3.1-8b] [--layers=N] [--option=key=value]...
//
// Decode graphs of 1 and 64 requests with 1024 cached tokens each, and full prefill graphs of 128
// and 4096 tokens. Each is timed untraced first; of several traced runs the shortest is shown. A
// tracer widens gaps between kernels: what it adds is the difference of the two times.
//
// The table has a line for each op and kernel, layers together. `own` is the time by which the
// kernels moved the end of the step forward, `busy` the time between their starts and ends: more,
// where a kernel begins before the one before it has ended. Rates are of an op's own time with all
// its kernels, on the first of its lines: GB/s of weights or cached keys and values, TFLOP/s of
// products.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/capture.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "or_exit.h"
#include "random_model.h"
#include "random_requests.h"
#include "step_profile.h"

namespace encore::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kPageSize = 16;
constexpr int32_t kMaxRequests = 64;
constexpr int32_t kMaxTokens = 4096;
constexpr int32_t kCached = 1024;
constexpr int kTimedSteps = 20;
constexpr int kTraces = 5;
constexpr size_t kGapsShown = 3;

// One kind of step that is looked at.
struct Case {
  std::string name;
  Runner* runner = nullptr;
  RandomRequests requests;
  int32_t count = 0;   // requests
  int32_t cached = 0;  // tokens of each that are cached
  int32_t fresh = 0;   // tokens that each brings
  double untraced_us = 0.0;
};

Case make_case(const std::string& name, Runner* runner, int32_t count, int32_t cached,
               int32_t fresh) {
  return {name, runner, RandomRequests(count, cached, fresh, kPageSize), count, cached, fresh};
}

// From submit() to the results, the median.
double time_untraced(Case& one) {
  std::vector<double> times;
  for (int i = 0; i < kTimedSteps; ++i) {
    const Clock::time_point start = Clock::now();
    const Ticket ticket =
        take(one.runner->submit(one.requests.batch(), one.requests.output()), "submit");
    check(one.runner->wait(ticket, -1), "wait");
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + kTimedSteps / 2, times.end());
  return times[kTimedSteps / 2];
}

StepProfile shortest_trace(Case& one) {
  std::optional<StepProfile> best;
  for (int i = 0; i < kTraces; ++i) {
    const auto events =
        take(one.runner->trace(one.requests.batch(), one.requests.output()), "trace");
    StepProfile profile = profile_of(events);
    if (!best || profile.step_us < best->step_us) best = std::move(profile);
  }
  return *best;
}

// What an op of the step must move and multiply, all layers together.
struct Work {
  double bytes = 0.0;
  double flops = 0.0;
};

std::map<std::string, Work> work_of(const ModelSpec& spec, const Case& one) {
  const double layers = static_cast<double>(spec.num_layers);
  const double tokens = one.count * one.fresh;
  const auto product = [](double rows, int64_t out, int64_t in, double times) {
    const double elements = static_cast<double>(out) * static_cast<double>(in);
    return Work{2.0 * elements * times, 2.0 * elements * rows * times};
  };
  const double keys = one.cached + (one.fresh + 1) / 2.0;  // that a token sees, on average
  const double kv_bytes = 4.0 * static_cast<double>(spec.kv_size()) * (one.cached + one.fresh);
  return {
      {"qkv", product(tokens, spec.q_size() + 2 * spec.kv_size(), spec.hidden_size, layers)},
      {"attention",
       {kv_bytes * one.count * layers,
        4.0 * static_cast<double>(spec.q_size()) * keys * tokens * layers}},
      {"o", product(tokens, spec.hidden_size, spec.q_size(), layers)},
      {"gate_up", product(tokens, 2 * spec.intermediate_size, spec.hidden_size, layers)},
      {"down", product(tokens, spec.hidden_size, spec.intermediate_size, layers)},
      {"head", product(one.count, spec.vocab_size, spec.hidden_size, 1.0)},
  };
}

void print_rates(const Work& work, double us) {
  if (work.bytes > 0.0) std::printf(" %8.0f", work.bytes / us / 1e3);
  if (work.flops > 0.0) std::printf(" %8.1f", work.flops / us / 1e6);
}

void print_profile(const ModelSpec& spec, const Case& one, const StepProfile& profile) {
  std::printf("\n%s: %.1f us traced, %.1f us untraced with submit and results\n", one.name.c_str(),
              profile.step_us, one.untraced_us);
  std::printf("  %-42s %5s %9s %8s %6s %9s %8s %8s %8s\n", "op: kernel", "count", "own us",
              "mean us", "share", "busy us", "gap us", "GB/s", "TFLOP/s");
  std::map<std::string, Work> work = work_of(spec, one);
  for (const NameTotal& total : profile.names) {
    std::printf("  %-42s %5d %9.1f %8.2f %5.1f%% %9.1f %8.1f", total.name.c_str(), total.count,
                total.own_us, total.own_us / total.count, 100.0 * total.own_us / profile.step_us,
                total.busy_us, total.gap_us);
    const std::string op = op_of(total.name);
    // Taken out, so that it stands on the op's first line alone.
    const auto known = work.extract(op);
    if (!known.empty()) print_rates(known.mapped(), profile.own_us_of_op(op));
    std::printf("\n");
  }
  std::printf("  gaps: %zu, %.1f us together (%.1f%%)", profile.gaps.size(), profile.gap_us,
              100.0 * profile.gap_us / profile.step_us);
  for (size_t i = 0; i < std::min(kGapsShown, profile.gaps.size()); ++i) {
    const Gap& gap = profile.gaps[i];
    std::printf("%s %.1f us between \"%s\" and \"%s\"", i == 0 ? "; largest:" : ",", gap.us,
                gap.before.c_str(), gap.after.c_str());
  }
  std::printf("\n");
}

struct Arguments {
  std::string plugin;
  std::string shape = "llama-3.1-8b";
  int64_t layers = 0;
  std::vector<std::pair<std::string, std::string>> options;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view flag) {
      return argument.starts_with(flag) ? argv[i] + flag.size() : nullptr;
    };
    if (const char* plugin = value("--plugin=")) {
      arguments.plugin = plugin;
    } else if (const char* shape = value("--shape=")) {
      arguments.shape = shape;
    } else if (const char* layers = value("--layers=")) {
      arguments.layers = std::atoll(layers);
    } else if (const char* option = value("--option=")) {
      const char* equals = std::strchr(option, '=');
      if (equals == nullptr) give_up("--option wants key=value");
      arguments.options.emplace_back(std::string(option, equals), equals + 1);
    } else {
      give_up("unknown argument " + std::string(argument));
    }
  }
  if (arguments.plugin.empty()) give_up("--plugin=PATH is needed");
  return arguments;
}

void log_line(sdk::LogLevel, std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

int run(const Arguments& arguments) {
  const auto spec = model_spec(arguments.shape, arguments.layers);
  if (!spec) give_up("unknown shape " + arguments.shape);
  auto plugin =
      take(load_plugin(arguments.plugin, {"step_trace", log_line}, nullptr, {.probe = false}),
           "loading the plugin");
  Backend& backend = *plugin.backend;
  check(backend.init(take(check_options(backend.option_schema(), arguments.options), "options")),
        "init");
  std::printf("%s, %lld layers, on %s\n", arguments.shape.c_str(),
              static_cast<long long>(spec->num_layers),
              take(backend.device_info(0), "device").name.c_str());
  const RandomWeights weights(*spec);
  auto model = take(backend.load_model(0, *spec, weights, {}), "load");
  const int32_t pages = RandomRequests(kMaxRequests, kCached, 1, kPageSize).num_pages();
  auto kv = take(model->create_kv({pages, kPageSize, DType::kBF16, false}), "KV cache");
  CaptureOptions capture;
  capture.limits.max_requests = kMaxRequests;
  capture.limits.max_tokens = kMaxTokens;
  capture.limits.max_context = kMaxTokens;
  capture.prefill_buckets = {128, kMaxTokens};
  capture.decode_buckets = {1, kMaxRequests};
  const RunnerCapture prefill = take(model->capture_prefill(*kv, capture), "prefill");
  const RunnerCapture decode = take(model->capture_decode(*kv, capture), "decode");

  std::vector<Case> cases;
  cases.push_back(make_case("decode 1", decode.runner.get(), 1, kCached, 1));
  cases.push_back(make_case("decode 64", decode.runner.get(), 64, kCached, 1));
  cases.push_back(make_case("prefill 128", prefill.runner.get(), 1, 0, 128));
  cases.push_back(make_case("prefill 4096", prefill.runner.get(), 1, 0, 4096));
  // All before the first trace, after which a tracer may stay attached.
  for (Case& one : cases) one.untraced_us = time_untraced(one);
  for (Case& one : cases) print_profile(*spec, one, shortest_trace(one));
  return 0;
}

}  // namespace
}  // namespace encore::bench

int main(int argc, char** argv) { return encore::bench::run(encore::bench::parse(argc, argv)); }
