#include "session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "capture_table.h"
#include "interrupt.h"
#include "kv_sizing.h"
#include "logging.h"
#include "progress.h"
#include "text_assets.h"
#include "text_table.h"

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDefaultMaxContext = 4096;
constexpr int32_t kMaxLogprobs = 20;     // most probable tokens a request may ask for
constexpr int32_t kBiasesARequest = 64;  // in the static buffers, on average

int64_t us_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

// An error about a key: "configs/a.yaml:3: MESSAGE".
Status key_error(const LoadedConfig& loaded, const std::string& key, const std::string& message) {
  const std::string origin = loaded.origin(key);
  return invalid_argument((origin == "default" ? key : origin) + ": " + message);
}

int64_t pages_for(int64_t tokens, int64_t page_size) {
  return tokens / page_size + (tokens % page_size == 0 ? 0 : 1);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const LoadedConfig& loaded) {
  const Clock::time_point start = Clock::now();
  std::unique_ptr<Session> session(new Session(loaded));
  ENCORE_ASSIGN_OR_RETURN(session->backend_, open_backend(loaded));
  const int32_t device = loaded.config.backend.device;
  ENCORE_ASSIGN_OR_RETURN(session->device_, session->backend().device_info(device));
  ENCORE_ASSIGN_OR_RETURN(session->baseline_, measure_baseline(session->backend(), device,
                                                               loaded.config.parallel.tensor));
  session->timings_.backend_us = us_since(start);
  ENCORE_RETURN_IF_ERROR(session->open_files());
  ENCORE_RETURN_IF_ERROR(session->set_limits());
  // The tokenizer is built while weights are loaded and graphs captured: it needs neither.
  std::future<int64_t> tokenizer = std::async(std::launch::async, [&session] {
    const Clock::time_point begin = Clock::now();
    session->tokenizer_ = make_tokenizer(session->files_.text);
    return us_since(begin);
  });
  Status status = session->load_weights();
  if (status.ok()) status = session->create_kv();
  if (status.ok()) status = session->capture();
  session->timings_.tokenizer_us = tokenizer.get();
  ENCORE_RETURN_IF_ERROR(status);
  // Half a megabyte to tens of megabytes that nothing needs any more.
  session->files_.text.tokenizer_json = {};
  session->files_.text.gguf = {};
  session->timings_.total_us = us_since(start);
  return session;
}

Session::~Session() {
  // Runners before KV cache, KV cache before model; members alone would do it, but the order is a
  // rule of the boundary and deserves to be written.
  engine_.reset();
  graphs_ = {};
  kv_.reset();
  model_.reset();
}

Status Session::open_files() {
  const Clock::time_point start = Clock::now();
  const std::string& path = config().model.path;
  if (path.empty()) {
    return invalid_argument(
        "model.path is not set; name a .gguf file or a Hugging Face directory with --model or in "
        "the configuration file");
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return key_error(loaded_, "model.path", "model.path is " + path + ", which does not exist");
  }
  Result<ModelFiles> files = open_model(path);
  if (!files.ok()) {
    // A bad file is not a bad configuration.
    const StatusCode code = files.status().code();
    const bool argument = code == StatusCode::kInvalidArgument;
    return {argument ? StatusCode::kDataLoss : code, files.status().message()};
  }
  files_ = *std::move(files);
  for (const std::string& note : files_.notes) spdlog::info("{}", note);
  spdlog::info("model: {}", describe_model(files_.spec));
  timings_.files_us = us_since(start);
  return backend().check_model(config().backend.device, files_.spec, files_.weights->weights());
}

Status Session::set_limits() {
  const SchedulerConfig& scheduler = config().scheduler;
  const int64_t wanted = scheduler.max_context > 0 ? scheduler.max_context : kDefaultMaxContext;
  const int64_t context = std::min(wanted, files_.spec.max_context);
  if (scheduler.max_context > files_.spec.max_context) {
    spdlog::warn("scheduler.max_context is {} ({}); the model's limit is {}, so that is used",
                 scheduler.max_context, loaded_.origin("scheduler.max_context"), context);
  }
  if (scheduler.max_tokens_per_step < scheduler.max_running_requests) {
    return key_error(loaded_, "scheduler.max_tokens_per_step",
                     "scheduler.max_tokens_per_step is " +
                         std::to_string(scheduler.max_tokens_per_step) +
                         "; it must be at least scheduler.max_running_requests, " +
                         std::to_string(scheduler.max_running_requests) +
                         ", so that every request can get a token each step");
  }
  const CaptureConfig& capture = config().capture;
  if (capture.lazy && capture.require_graph) {
    return key_error(loaded_, "capture.lazy",
                     "capture.lazy serves steps eagerly until their bucket is captured, which "
                     "capture.require_graph forbids; set one of them");
  }
  RunnerLimits& limits = capture_options_.limits;
  limits.max_requests = scheduler.max_running_requests;
  limits.max_tokens = scheduler.max_tokens_per_step;
  limits.max_context = static_cast<int32_t>(context);
  limits.max_logprobs =
      static_cast<int32_t>(std::min<int64_t>(kMaxLogprobs, files_.spec.vocab_size));
  const int64_t distinct = std::min(context, files_.spec.vocab_size);
  limits.max_history =
      static_cast<int32_t>(std::min<int64_t>(limits.max_requests * distinct, int64_t{1} << 20));
  limits.max_biases = limits.max_requests * kBiasesARequest;
  capture_options_.prefill_mode = capture.prefill;
  capture_options_.prefill_buckets = capture.prefill_buckets;
  capture_options_.decode_buckets = capture.decode_buckets;
  capture_options_.padding = capture.padding;
  capture_options_.poison = capture.poison;
  capture_options_.guards = capture.guards;
  capture_options_.lazy = capture.lazy;
  return {};
}

Status Session::load_weights() {
  const Clock::time_point start = Clock::now();
  Progress progress("load", true);
  LoadOptions options;
  options.tensor_parallel_size = config().parallel.tensor;
  if (options.tensor_parallel_size > 1) options.tensor_parallel_rank = kAllRanks;
  options.progress = [&progress](int64_t done, int64_t total) {
    progress.update(done, total);
    return !interrupted();
  };
  ENCORE_ASSIGN_OR_RETURN(
      model_, backend().load_model(config().backend.device, files_.spec, *files_.weights, options));
  const ModelInfo info = model_->info();
  progress.finish(format_bytes(static_cast<double>(info.weight_bytes)) + " of weights, " +
                  format_bytes(static_cast<double>(info.mapped_bytes)) + " of them mapped");
  timings_.load_us = us_since(start);
  return {};
}

Status Session::create_kv() {
  const KvCacheConfig& kv = config().kv_cache;
  const RunnerLimits& limits = capture_options_.limits;
  KvOptions options;
  options.page_size = kv.page_size;
  options.dtype = kv.dtype;
  options.guards = config().capture.guards;
  const int64_t pages_a_request = pages_for(limits.max_context, kv.page_size);
  ENCORE_ASSIGN_OR_RETURN(const int64_t pages, choose_kv_pages(options));
  if (pages > INT32_MAX) {
    return key_error(loaded_, "kv_cache.max_tokens",
                     "the KV cache would have " + std::to_string(pages) +
                         " pages; the limit is 2147483647: lower kv_cache.max_tokens");
  }
  if (pages < pages_a_request) {
    spdlog::warn(
        "kv_cache.max_tokens is {}: one request can have {} tokens at most, less than max_context "
        "{}",
        kv.max_tokens, pages * kv.page_size, limits.max_context);
  }
  options.num_pages = static_cast<int32_t>(pages);
  ENCORE_RETURN_IF_ERROR(create_kv_of(options, std::min(pages, pages_a_request)));
  const KvInfo info = kv_->info();
  ENCORE_RETURN_IF_ERROR(check_kv_fits(info.total_bytes));
  spdlog::info("KV cache: {} tokens in {} pages of {}, {}, {}; context {} tokens, {} requests",
               int64_t{info.num_pages} * info.page_size, info.num_pages, info.page_size,
               dtype_name(info.dtype), format_bytes(static_cast<double>(info.total_bytes)),
               limits.max_context, limits.max_requests);
  return {};
}

// What the configuration asks for; where it leaves the size open, all that could be used, as far as
// memory_fraction goes.
Result<int64_t> Session::choose_kv_pages(const KvOptions& options) {
  const KvCacheConfig& kv = config().kv_cache;
  if (kv.max_tokens > 0) return pages_for(kv.max_tokens, kv.page_size);
  const RunnerLimits& limits = capture_options_.limits;
  const int64_t least = pages_for(limits.max_context, kv.page_size);
  const int64_t most = least * limits.max_requests;
  const bool asked = loaded_.origin("kv_cache.memory_fraction") != "default";
  if (!baseline_.has_own_memory && !asked) return most;
  return pages_in_memory(options, least, most);
}

Result<int64_t> Session::pages_in_memory(const KvOptions& options, int64_t least, int64_t most) {
  const Result<MemoryPlan> plan = model_->plan_memory(options, capture_options_);
  if (plan.status().code() == StatusCode::kUnimplemented) {
    spdlog::info("kv_cache.memory_fraction is not heeded: {}", plan.status().message());
    return most;
  }
  ENCORE_RETURN_IF_ERROR(plan.status());
  KvBudget budget;
  ENCORE_ASSIGN_OR_RETURN(budget.memory, backend().device_memory(config().backend.device));
  budget.fraction = static_cast<double>(config().kv_cache.memory_fraction);
  budget.plan = *plan;
  budget.least_pages = least;
  budget.most_pages = most;
  const KvSize size = size_kv(budget);
  if (size.pages >= least) {
    if (size.pages < most) {
      spdlog::info("KV cache: room for {} of the {} pages that {} requests of {} tokens could use",
                   size.pages, most, capture_options_.limits.max_requests, max_context());
    }
    return size.pages;
  }
  const std::string remedy =
      size.needed_fraction <= 1.0
          ? "raise kv_cache.memory_fraction to " + format_number(size.needed_fraction + 0.0005, 3)
          : "not even all of the memory is enough";
  return key_error(
      loaded_, "kv_cache.memory_fraction",
      "kv_cache.memory_fraction is " + format_number(budget.fraction, 3) + " of " +
          format_bytes(static_cast<double>(budget.memory.total_bytes)) + ", which leaves " +
          std::to_string(size.pages * options.page_size) +
          " tokens for the KV cache; one request of scheduler.max_context " +
          std::to_string(max_context()) + " must fit: " + remedy +
          ", or lower scheduler.max_context, max_tokens_per_step or max_running_requests");
}

// The sizing goes by totals; memory in pieces, or another process, may still stand in the way.
Status Session::create_kv_of(KvOptions options, int64_t least_pages) {
  const int32_t wanted = options.num_pages;
  for (;;) {
    Result<std::unique_ptr<KvCache>> kv = model_->create_kv(options);
    if (kv.ok()) {
      kv_ = *std::move(kv);
      break;
    }
    const int64_t fewer = std::max<int64_t>(least_pages, int64_t{options.num_pages} * 15 / 16);
    const bool out_of_memory = kv.status().code() == StatusCode::kOutOfMemory;
    if (!out_of_memory || fewer >= options.num_pages) return kv.status();
    options.num_pages = static_cast<int32_t>(fewer);
  }
  if (options.num_pages < wanted) {
    spdlog::warn("KV cache: the device has no room for {} pages; {} are used instead", wanted,
                 options.num_pages);
  }
  return {};
}

// A host gives out more memory than it has; the process would be ended once the cache fills up.
Status Session::check_kv_fits(int64_t kv_bytes) {
  if (baseline_.has_own_memory) return {};
  ENCORE_ASSIGN_OR_RETURN(const DeviceMemory memory,
                          backend().device_memory(config().backend.device));
  if (kv_bytes <= memory.free_bytes) return {};
  const std::string size = format_bytes(static_cast<double>(kv_bytes));
  if (kv_bytes <= memory.total_bytes) {
    spdlog::warn("the KV cache may grow to {}; {} of memory are free", size,
                 format_bytes(static_cast<double>(memory.free_bytes)));
    return {};
  }
  return key_error(loaded_, "kv_cache.max_tokens",
                   "the KV cache would grow to " + size + "; the machine has " +
                       format_bytes(static_cast<double>(memory.total_bytes)) +
                       ": set kv_cache.max_tokens or kv_cache.memory_fraction, or lower "
                       "scheduler.max_context or max_running_requests");
}

Status Session::capture() {
  const Clock::time_point start = Clock::now();
  Progress progress("capture", false);
  GraphsOptions options;
  options.capture = capture_options_;
  options.capture_decode = config().capture.decode;
  options.capture.progress = [&progress](int32_t done, int32_t total) {
    progress.update(done, total);
  };
  ENCORE_ASSIGN_OR_RETURN(graphs_, capture_graphs(*model_, *kv_, options));
  summary_.eager = graphs_.eager.report;
  summary_.prefill = graphs_.prefill.report;
  summary_.decode = graphs_.decode.report;
  summary_.prefill_mode = graphs_.prefill.mode;
  summary_.has_decode = graphs_.decode.runner != nullptr;
  timings_.capture_us = us_since(start);
  progress.finish(describe_capture(summary_));
  if (spdlog::should_log(spdlog::level::debug)) spdlog::debug("{}", capture_table(summary_));
  for (const std::string& skipped : skipped_buckets(summary_)) spdlog::warn("{}", skipped);
  return check_memory();
}

// Executables were only estimated when the KV cache was sized: says so if that was too little.
Status Session::check_memory() const {
  if (!baseline_.has_own_memory) return {};
  ENCORE_ASSIGN_OR_RETURN(const MemoryLedger ledger, this->ledger());
  spdlog::debug("memory\n{}", ledger_table(ledger));
  ENCORE_ASSIGN_OR_RETURN(const DeviceMemory memory,
                          backend_.backend->device_memory(config().backend.device));
  const auto total = static_cast<double>(memory.total_bytes);
  const double used = (total - static_cast<double>(memory.free_bytes)) / total;
  const auto fraction = static_cast<double>(config().kv_cache.memory_fraction);
  constexpr double kTolerance = 0.005;
  if (config().kv_cache.max_tokens == 0 && used > fraction + kTolerance) {
    spdlog::warn("{} % of the device's memory is in use; kv_cache.memory_fraction is {}",
                 format_number(100.0 * used, 1), format_number(fraction, 3));
  }
  return {};
}

Result<MemoryLedger> Session::ledger() const {
  return make_ledger(*backend_.backend, baseline_, model_->info(), kv_->info(), summary_);
}

Status Session::start_engine(const DecodeOptions& decode) {
  EngineOptions options;
  options.limits = capture_options_.limits;
  options.num_valid_tokens = num_valid_tokens();
  options.end_tokens = files_.generation.eos_ids;
  if (tokenizer_.ok()) options.make_text = text_factory(**tokenizer_, decode);
  options.dispatch.require_graph = config().capture.require_graph;
  options.submit_ahead = submits_ahead();
  if (submits_ahead()) options.step_timeout_us = std::chrono::microseconds(kStepTimeout).count();
  options.prefix_cache = config().scheduler.prefix_cache;
  options.guard_check_interval = config().capture.guards ? 16 : 0;
  options.log = log_sink();
  options.captured = [this](RunnerKind kind, const CaptureReport& report) {
    summary_.add(kind, report);
  };
  ENCORE_ASSIGN_OR_RETURN(engine_,
                          Engine::create(*model_, *kv_, std::move(graphs_), std::move(options)));
  graphs_ = {};
  return {};
}

Result<const Tokenizer*> Session::tokenizer() const {
  if (!tokenizer_.ok()) return tokenizer_.status();
  return tokenizer_->get();
}

int32_t Session::num_valid_tokens() const {
  const int64_t vocab_size = files_.spec.vocab_size;
  if (!tokenizer_.ok()) return static_cast<int32_t>(vocab_size);
  return static_cast<int32_t>(std::min<int64_t>((*tokenizer_)->vocab_size(), vocab_size));
}

std::string describe_model(const ModelSpec& spec) {
  std::string text = spec.name.empty() ? "" : spec.name + ", ";
  text += spec.architecture + ", " + std::to_string(spec.num_layers) + " layers, hidden size ";
  text += std::to_string(spec.hidden_size) + ", " + std::to_string(spec.num_heads) + " heads over ";
  text += std::to_string(spec.num_kv_heads) + ", vocabulary " + std::to_string(spec.vocab_size);
  return text + ", context " + std::to_string(spec.max_context);
}

}  // namespace encore
