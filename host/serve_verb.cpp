// encore serve CONFIG: the engine behind an OpenAI-compatible HTTP API.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config_flags.h"
#include "end_process.h"
#include "exit_code.h"
#include "interrupt.h"
#include "logging.h"
#include "sampling_defaults.h"
#include "serve/api_keys.h"
#include "serve/drain.h"
#include "serve/engine_loop.h"
#include "serve/model_server.h"
#include "serve/page.h"
#include "serve/throughput.h"
#include "session.h"
#include "session_text.h"
#include "verbs.h"

namespace encore {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int32_t kCompletionTokens = 16;  // of /v1/completions without max_tokens, as OpenAI
constexpr milliseconds kThroughputEvery{10'000};
constexpr seconds kFailureTime{5};               // for clients to hear that the engine has failed
constexpr milliseconds kFlushTime{2'000};        // for the last bytes to reach slow clients
constexpr milliseconds kPreparationTime{1'000};  // for what is still encoded for nobody
// From a cancel, or stop(), to the end of the step under way; a step that fails is told of first.
constexpr seconds kStepTime = kStepTimeout + kFailureTime;
constexpr milliseconds kPollEvery{10};

struct ServeFlags {
  ConfigFlags config;
  std::vector<std::string> api_keys;
};

// The configuration with all keys and a name for the model.
Result<LoadedConfig> load(const ServeFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(LoadedConfig loaded, flags.config.load());
  ServerConfig& server = loaded.config.server;
  server.api_keys.insert(server.api_keys.end(), flags.api_keys.begin(), flags.api_keys.end());
  if (const char* key = std::getenv("ENCORE_API_KEY")) {
    // Somebody wants a key and has none: not a server without keys.
    if (*key == '\0') return invalid_argument("ENCORE_API_KEY is empty; give it a key or unset it");
    server.api_keys.emplace_back(key);
  }
  ENCORE_ASSIGN_OR_RETURN(server.api_keys, load_api_keys(server));
  if (server.model_name.empty()) {
    std::filesystem::path path = loaded.config.model.path;
    if (!path.has_filename()) path = path.parent_path();  // "models/llama/"
    server.model_name = path.filename().string();
  }
  set_up_logging(loaded.config.log, LogTime::kUtc);
  return loaded;
}

HttpOptions http_options(const ServerConfig& config) {
  HttpOptions options;
  options.host = config.host;
  options.port = config.port;
  options.max_connections = config.max_connections;
  options.max_body_bytes = config.max_body_bytes;
  options.max_header_bytes = config.max_header_bytes;
  options.idle_timeout_ms = int64_t{config.idle_timeout_s} * 1000;
  options.error_body = [](int32_t status, std::string_view message) {
    ApiError error;
    error.http_status = status;
    error.message = message;
    if (status >= 500) error.type = "server_error";
    return to_json(error);
  };
  return options;
}

std::string address(const HttpServer& http) {
  const std::string host = http.host();
  const bool is_ipv6 = host.find(':') != std::string::npos;
  std::string text = "http://";
  text.append(is_ipv6 ? "[" + host + "]" : host);
  return text.append(":").append(std::to_string(http.port()));
}

RequestDefaults request_defaults(const Session& session) {
  const SamplingConfig& config = session.config().sampling;
  RequestDefaults defaults;
  defaults.sampling = resolve_sampling(session.loaded(), session.files().generation, draw_seed());
  defaults.max_tokens = kCompletionTokens;
  defaults.stop = config.stop;
  defaults.ignore_eos = config.ignore_eos;
  return defaults;
}

ServedModel served_model(Session& session, const SessionText& text, EngineLoop& loop) {
  const RunnerLimits& limits = session.capture_options().limits;
  ServedModel model;
  model.card.name = session.config().server.model_name;
  model.card.created =
      std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  model.card.max_model_len = session.engine().max_request_tokens();
  model.text = &text;
  model.engine = &session.engine();
  model.loop = &loop;
  model.limits.vocab_size = session.num_valid_tokens();
  model.limits.max_logprobs = limits.max_logprobs;
  model.max_running_requests = limits.max_requests;
  model.page_size = session.kv().info().page_size;
  model.defaults = [&session] { return request_defaults(session); };
  return model;
}

// Set once, by any thread; others wait for it, beside a signal.
class Event {
 public:
  Event() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  ~Event() { close(fd_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void set() const { eventfd_write(fd_, 1); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

enum class Woken { kByTime, kBySignal, kByEnd };

Woken wait_for(const Event& ended, milliseconds time, bool or_signal) {
  const Clock::time_point until = Clock::now() + time;
  for (;;) {
    std::array<pollfd, 2> fds = {{{ended.fd(), POLLIN, 0}, {interrupt_event(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    const int ready = poll(fds.data(), or_signal ? 2 : 1, static_cast<int>(std::max(left, 0L)));
    if (ready < 0) continue;  // a signal arrived
    if (fds[0].revents != 0) return Woken::kByEnd;
    if (or_signal && fds[1].revents != 0) return Woken::kBySignal;
    if (ready == 0) return Woken::kByTime;
  }
}

// While the main thread steps the engine: says how fast it is, and ends it all when a signal comes.
class Supervisor {
 public:
  // Borrows all.
  Supervisor(ModelServer& server, EngineLoop& loop, Session& session)
      : server_(server),
        loop_(loop),
        engine_(session.engine()),
        meter_(!session.submits_ahead()),
        drain_timeout_(session.config().server.drain_timeout_s),
        thread_([this] { watch(); }) {}
  // Waits for the thread. REQUIRES: the loop has ended.
  ~Supervisor() {
    loop_ended_.set();
    thread_.join();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

 private:
  void watch() {
    for (;;) {
      const Woken woken = wait_for(loop_ended_, kThroughputEvery, true);
      if (woken == Woken::kByEnd) return;
      if (woken == Woken::kBySignal) break;
      const double elapsed = std::chrono::duration<double>(kThroughputEvery).count();
      const std::string line = meter_.line(engine_.stats(), elapsed);
      if (!line.empty()) spdlog::info("{}", line);
    }
    const bool drained = drain_requests(server_, {drain_timeout_, kStepTime});
    loop_.stop();
    if (drained && wait_for(loop_ended_, kStepTime, false) == Woken::kByEnd) return;
    spdlog::error("the device has not finished its step for {} s; giving up", kStepTime.count());
    end_process(kExitFailure);
  }

  ModelServer& server_;
  EngineLoop& loop_;
  const Engine& engine_;
  ThroughputMeter meter_;
  const seconds drain_timeout_;
  const Event loop_ended_;
  std::thread thread_;
};

// Closes connections once their answers are out, and the rest after a while.
void finish_answers(HttpServer& http) {
  http.drain();
  const Clock::time_point until = Clock::now() + kFlushTime;
  while (http.stats().connections_open > 0 && Clock::now() < until) {
    std::this_thread::sleep_for(kPollEvery);
  }
  http.stop();
}

// Everything that a running server consists of; members end in reverse order.
class Service {
 public:
  explicit Service(const LoadedConfig& loaded) : loaded_(loaded) {}
  // Whatever has happened: connections and handlers end before what they use.
  ~Service() {
    if (http_) http_->stop();
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Takes the port; everything is answered, with 503, from here on.
  Status listen() {
    ENCORE_ASSIGN_OR_RETURN(http_, HttpServer::bind(http_options(config())));
    server_ = std::make_unique<ModelServer>(*http_, config(), page_html());
    http_->start(server_->handler(), server_->head_check());
    spdlog::info("loading; {} says 503 until that is done", address(*http_));
    if (config().api_keys.empty() && !is_loopback(config().host)) {
      spdlog::warn("server.host is {} and there is no API key: whoever reaches it may use it",
                   config().host);
    }
    return {};
  }

  Status load_model() {
    ENCORE_ASSIGN_OR_RETURN(session_, Session::open(loaded_));
    ENCORE_ASSIGN_OR_RETURN(text_, SessionText::open(*session_));
    DecodeOptions decode;
    decode.continues_text = true;
    ENCORE_RETURN_IF_ERROR(session_->start_engine(decode));
    loop_.emplace(session_->engine(), server_->event_sink());
    return {};
  }

  // Until a signal. Errors: the engine's.
  Status run() {
    Status status;
    {
      const ServedModel model = served_model(*session_, *text_, *loop_);
      const Supervisor supervisor(*server_, *loop_, *session_);
      server_->set_model(model);
      spdlog::info("serving {}: {} tokens of prompt and reply, {} requests at a time, {} waiting",
                   model.card.name, model.card.max_model_len, model.max_running_requests,
                   config().max_queue);
      spdlog::info("listening on {}", address(*http_));
      status = loop_->run();
      if (!status.ok()) answer_failure(status);
    }
    finish_answers(*http_);
    return status;
  }

  // Whether destructors would return soon.
  bool can_be_destroyed(const Status& status) {
    if (device_is_stuck(status)) return false;
    if (!server_ || server_->end_preparations(kPreparationTime)) return true;
    spdlog::warn("a prompt is still being prepared, for nobody; ending without it");
    return false;
  }

 private:
  const ServerConfig& config() const { return loaded_.config.server; }

  static bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
  }

  // The engine has ended its requests; their clients hear of it before the process ends.
  void answer_failure(const Status& status) {
    spdlog::error("the engine has failed: {}", status.message());
    server_->fail(status);
    const Clock::time_point until = Clock::now() + kFailureTime;
    while (server_->requests_in_progress() > 0 && Clock::now() < until) {
      std::this_thread::sleep_for(kPollEvery);
    }
  }

  const LoadedConfig& loaded_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionText> text_;
  std::optional<EngineLoop> loop_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ModelServer> server_;
};

int serve(const ServeFlags& flags) {
  const Result<LoadedConfig> loaded = load(flags);
  if (!loaded.ok()) return report_error(loaded.status());
  catch_interrupts();
  Service service(*loaded);
  Status status = service.listen();
  if (status.ok()) status = service.load_model();
  if (interrupted()) {
    spdlog::info("stopped while loading");
    return kExitOk;
  }
  if (status.ok()) status = service.run();
  const bool can_be_destroyed = service.can_be_destroyed(status);
  if (status.ok()) spdlog::info("stopped");
  const int code = status.ok() ? kExitOk : report_error(status);
  if (!can_be_destroyed) end_process(code);
  return code;
}

}  // namespace

void declare_serve(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("serve", "Serve the model by an OpenAI-compatible HTTP API");
  auto flags = std::make_shared<ServeFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kRequired);
  flags->config.declare_server(*verb);
  verb->add_option("--api-key", flags->api_keys,
                   "A key that requests may bring, beside server.api_keys; repeatable; also the "
                   "variable ENCORE_API_KEY")
      ->option_text("KEY")
      ->allow_extra_args(false);
  verb->callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace encore
