// Speed of a whole model of real widths with random weights, through a plugin, in every mode.
//
//   model_bench --plugin=PATH [--shape=llama-3.1-8b] [--layers=N] [--tensor=N]
//              [--page-size=16] [--quick] [--verbose] [--option=key=value]...
//   model_bench --plugin=PATH --prompt=TOKENS [--shape=...] [--layers=N] [--verbose]
//
// Prints what capture cost, then decode steps (submitted one ahead, as the engine does) and prefill
// steps, medians after warm-up, beside the limits that the backend measures in the same run.
//
// With --prompt only a prefill of one prompt is timed, on a device that rests between steps and on
// one that does not: under load a device may lower its clocks to stay within its power.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "encore/capture.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "or_exit.h"
#include "random_model.h"
#include "random_requests.h"

namespace encore::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kMaxRequests = 256;
constexpr int32_t kMaxTokens = 8192;
constexpr int32_t kMaxContext = 8192;
constexpr int32_t kCacheTokens = 192000;
constexpr int kSteps = 60;
constexpr int kWarmSteps = 10;
constexpr int kRounds = 7;
constexpr int32_t kQuickTokens = 1024;  // the longest prefill of --quick

// Of --prompt.
constexpr int kRestedSteps = 40;
constexpr std::chrono::milliseconds kRest{40};
constexpr std::chrono::seconds kSustained{2};

int32_t page_size = 16;  // --page-size

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The value that this share of them, from 0 to 1, does not reach.
double quantile(std::vector<double> values, double share) {
  const auto rank = static_cast<int64_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<size_t>(rank)];
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

RandomRequests requests_of(int32_t count, int32_t cached, int32_t fresh, int32_t capacity) {
  RandomRequests requests(count, cached, fresh, page_size, capacity);
  if (requests.num_pages() > kCacheTokens / page_size)
    give_up("the KV cache is too small for this benchmark");
  return requests;
}

void run_step(Runner& runner, RandomRequests& requests) {
  const Ticket ticket = take(runner.submit(requests.batch(), requests.output()), "submit");
  check(runner.wait(ticket, -1), "wait");
}

// Fills the cache with `context` tokens a request, some requests at a time.
void fill_context(Runner& prefill, int32_t count, int32_t context, int32_t capacity) {
  RandomRequests all = requests_of(count, 0, 1, capacity);
  const ForwardBatch whole = all.batch();
  for (int32_t i = 0; i < count; ++i) {
    RandomRequests one = requests_of(1, 0, context, context);
    ForwardBatch batch = one.batch();
    batch.page_ids =
        whole.page_ids.subspan(static_cast<size_t>(whole.page_start[static_cast<size_t>(i)]),
                               static_cast<size_t>((context + page_size - 1) / page_size));
    const Ticket ticket = take(prefill.submit(batch, one.output()), "submit");
    check(prefill.wait(ticket, -1), "wait");
  }
}

struct DecodeTimes {
  double step_us = 0;    // from one step's end to the next one's, submitted one ahead
  double submit_us = 0;  // host time in submit()
  // A tenth of them take less than this: far less than the median if something else disturbs.
  double fast_submit_us = 0;
};

DecodeTimes time_decode(Runner& runner, int32_t count, int32_t context, int32_t capacity) {
  RandomRequests requests[2] = {requests_of(count, context, 1, capacity),
                                requests_of(count, context + 1, 1, capacity)};
  for (RandomRequests& request : requests) request.feed_back();
  std::vector<double> steps;
  std::vector<double> submits;
  Ticket pending = take(runner.submit(requests[0].batch(), requests[0].output()), "submit");
  Clock::time_point last = Clock::now();
  for (int i = 1; i < kSteps + kWarmSteps; ++i) {
    RandomRequests& next = requests[i % 2];
    next.set_cached(context + i);
    const Clock::time_point start = Clock::now();
    const Ticket ticket = take(runner.submit(next.batch(), next.output()), "submit");
    if (i >= kWarmSteps) submits.push_back(us_since(start));
    check(runner.wait(pending, -1), "wait");
    if (i >= kWarmSteps) steps.push_back(us_since(last));
    last = Clock::now();
    pending = ticket;
  }
  check(runner.wait(pending, -1), "wait");
  return {median(steps), median(submits), quantile(submits, 0.1)};
}

// From submit to results.
double step_us(Runner& runner, RandomRequests& requests) {
  const Clock::time_point start = Clock::now();
  run_step(runner, requests);
  return us_since(start);
}

double time_prefill(Runner& runner, int32_t count, int32_t length) {
  RandomRequests requests = requests_of(count, 0, length, length);
  std::vector<double> times;
  for (int i = 0; i < kRounds + 2; ++i) {
    const double us = step_us(runner, requests);
    if (i >= 2) times.push_back(us);
  }
  return median(times);
}

// Steps a while apart, as single prompts come.
double time_rested(Runner& runner, int32_t length) {
  RandomRequests requests = requests_of(1, 0, length, length);
  std::vector<double> times;
  for (int i = 0; i < kRestedSteps; ++i) {
    std::this_thread::sleep_for(kRest);
    times.push_back(step_us(runner, requests));
  }
  return median(times);
}

// One step after the other for a while, of which the second half counts.
double time_sustained(Runner& runner, int32_t length) {
  RandomRequests requests = requests_of(1, 0, length, length);
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < kSustained) times.push_back(step_us(runner, requests));
  return median({times.begin() + static_cast<int64_t>(times.size() / 2), times.end()});
}

struct Arguments {
  std::string plugin;
  std::string shape = "llama-3.1-8b";
  int64_t layers = 0;
  int32_t tensor = 1;
  int32_t prompt = 0;  // tokens; 0: everything
  bool quick = false;
  bool verbose = false;  // the plugin's log
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
    } else if (const char* tensor = value("--tensor=")) {
      arguments.tensor = std::atoi(tensor);
    } else if (const char* option = value("--option=")) {
      const char* equals = std::strchr(option, '=');
      if (equals == nullptr) give_up("--option wants key=value");
      arguments.options.emplace_back(std::string(option, equals), equals + 1);
    } else if (const char* tokens = value("--page-size=")) {
      page_size = std::atoi(tokens);
    } else if (const char* prompt = value("--prompt=")) {
      arguments.prompt = std::atoi(prompt);
    } else if (argument == "--verbose") {
      arguments.verbose = true;
    } else if (argument == "--quick") {
      arguments.quick = true;
    } else {
      give_up("unknown argument " + std::string(argument));
    }
  }
  if (arguments.plugin.empty()) give_up("--plugin=PATH is needed");
  return arguments;
}

void print_capture(const char* name, const CaptureReport& report) {
  int32_t skipped = 0;
  int32_t nodes = 0;
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason != Reason::kNone) {
      ++skipped;
      std::printf("  skipped %d: %s\n", bucket.bucket, bucket.message.c_str());
    }
    nodes = std::max(nodes, bucket.num_nodes);
  }
  std::printf(
      "%-18s %3zu buckets (%d skipped), %4d nodes, %7.1f ms; MB: arena %.1f, static %.1f, "
      "workspace %.1f, executables %.1f\n",
      name, report.buckets.size(), skipped, nodes, static_cast<double>(report.total_us) / 1e3,
      static_cast<double>(report.arena_bytes) / 1e6, static_cast<double>(report.static_bytes) / 1e6,
      static_cast<double>(report.workspace_bytes) / 1e6,
      static_cast<double>(report.executable_bytes) / 1e6);
}

int run(const Arguments& arguments) {
  const auto spec = model_spec(arguments.shape, arguments.layers);
  if (!spec) give_up("unknown shape " + arguments.shape);
  const auto log = [&](sdk::LogLevel, std::string_view line) {
    if (arguments.verbose) std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
  };
  auto plugin = take(load_plugin(arguments.plugin, {"model_bench", log}, nullptr, {.probe = false}),
                     "loading the plugin");
  Backend& backend = *plugin.backend;
  const auto options = take(check_options(backend.option_schema(), arguments.options), "options");
  check(backend.init(options), "init");
  const DeviceInfo info = take(backend.device_info(0), "device");
  const DeviceLimits limits = take(backend.measure_limits(0), "limits");
  std::printf("%s, %s; read %.0f GB/s, product %.0f TFLOP/s\n", info.name.c_str(),
              info.architecture.c_str(), limits.read_bytes_per_s / 1e9,
              limits.matmul_ops_per_s / 1e12);

  const RandomWeights weights(*spec);
  LoadOptions load;
  if (arguments.tensor > 1) {
    load.tensor_parallel_rank = kAllRanks;
    load.tensor_parallel_size = arguments.tensor;
  }
  Clock::time_point start = Clock::now();
  auto model = take(backend.load_model(0, *spec, weights, load), "load");
  const ModelInfo model_info = model->info();
  std::printf(
      "%s, %lld layers: %.2f GB of weights in %.2f s; a decode step reads %.2f GB: %.3f ms "
      "at least\n",
      arguments.shape.c_str(), static_cast<long long>(spec->num_layers),
      static_cast<double>(model_info.weight_bytes) / 1e9, us_since(start) / 1e6,
      static_cast<double>(model_info.step_weight_bytes) / 1e9,
      static_cast<double>(model_info.step_weight_bytes) / limits.read_bytes_per_s * 1e3 /
          arguments.tensor);
  auto kv = take(model->create_kv({kCacheTokens / page_size, page_size, DType::kBF16, false}),
                 "KV cache");

  CaptureOptions capture;
  capture.limits.max_requests = kMaxRequests;
  capture.limits.max_tokens = kMaxTokens;
  capture.limits.max_context = kMaxContext;
  capture.limits.max_logprobs = 20;
  capture.limits.max_history = 1 << 16;
  capture.limits.max_biases = 1024;
  if (arguments.prompt > 0) {
    capture.limits.max_tokens = arguments.prompt;
    capture.prefill_buckets = {arguments.prompt};
    const RunnerCapture full = take(model->capture_prefill(*kv, capture), "prefill");
    const double rested = time_rested(*full.runner, arguments.prompt);
    const double sustained = time_sustained(*full.runner, arguments.prompt);
    std::printf("1 x %d: rested %.3f ms, sustained %.3f ms\n", arguments.prompt, rested / 1e3,
                sustained / 1e3);
    return 0;
  }
  start = Clock::now();
  const RunnerCapture eager = take(model->create_eager(*kv, capture), "eager");
  std::printf("static buffers, workspace, timing of products: %.0f ms\n", us_since(start) / 1e3);
  print_capture("eager", eager.report);
  start = Clock::now();
  const RunnerCapture full = take(model->capture_prefill(*kv, capture), "prefill");
  const RunnerCapture decode = take(model->capture_decode(*kv, capture), "decode");
  std::printf("capture of prefill (full) and decode: %.0f ms\n", us_since(start) / 1e3);
  print_capture("prefill full", full.report);
  print_capture("decode", decode.report);
  capture.prefill_mode = PrefillMode::kBreakable;
  capture.prefill_buckets = {128, 4096};
  const RunnerCapture breakable = take(model->capture_prefill(*kv, capture), "breakable");
  print_capture("prefill breakable", breakable.report);

  std::printf("\n%-28s %10s %10s %12s %12s %12s\n", "decode", "graph ms", "eager ms", "graph tok/s",
              "submit us", "fastest 10 %");
  for (const int32_t count : {1, 8, 16, 32, 64, 128}) {
    if (arguments.quick && count != 1 && count != 64) continue;
    constexpr int32_t kContext = 1024;
    constexpr int32_t kCapacity = kContext + kSteps + kWarmSteps + 1;
    fill_context(*full.runner, count, kContext, kCapacity);
    const DecodeTimes graph = time_decode(*decode.runner, count, kContext, kCapacity);
    const DecodeTimes eagerly = time_decode(*eager.runner, count, kContext, kCapacity);
    std::printf("batch %3d, context 1024      %10.3f %10.3f %12.0f %12.1f %12.1f\n", count,
                graph.step_us / 1e3, eagerly.step_us / 1e3, count * 1e6 / graph.step_us,
                graph.submit_us, graph.fast_submit_us);
  }
  std::printf("\n%-28s %10s %12s %10s %10s\n", "prefill", "full ms", "tok/s", "breakable",
              "eager ms");
  const std::pair<int32_t, int32_t> shapes[] = {{1, 128},  {1, 512},  {1, 1024}, {1, 4096},
                                                {4, 1024}, {16, 256}, {1, 8192}};
  for (const auto& [count, length] : shapes) {
    if (arguments.quick && count * length > kQuickTokens) continue;
    const double us = time_prefill(*full.runner, count, length);
    const bool has_bucket = count * length == 128 || count * length == 4096;
    const double broken = has_bucket ? time_prefill(*breakable.runner, count, length) : 0.0;
    const double eagerly = time_prefill(*eager.runner, count, length);
    std::printf("%2d x %-5d                   %10.3f %12.0f %10.3f %10.3f\n", count, length,
                us / 1e3, count * length * 1e6 / us, broken / 1e3, eagerly / 1e3);
  }
  for (const auto& [name, value] : backend.stats())
    std::printf("%s %lld\n", name.c_str(), static_cast<long long>(value));
  const DeviceMemory memory = take(backend.device_memory(0), "memory");
  std::printf("device memory used %.1f MB\n",
              static_cast<double>(memory.total_bytes - memory.free_bytes) / 1e6);
  return 0;
}

}  // namespace
}  // namespace encore::bench

int main(int argc, char** argv) { return encore::bench::run(encore::bench::parse(argc, argv)); }
