#include "serve/model_server.h"

#include <optional>
#include <utility>

#include "serve/answers.h"
#include "serve/api_keys.h"
#include "serve/call_table.h"
#include "serve/routes.h"

namespace encore {
namespace {

ApiError error_of(int32_t http_status, std::string message, std::string code) {
  ApiError error = bad_request(std::move(message), {}, std::move(code));
  error.http_status = http_status;
  return error;
}

ApiError unknown_path(const std::string& path) {
  return error_of(404, "There is no " + path + " here.", "not_found");
}

}  // namespace

class ModelServer::Impl {
 public:
  Impl(HttpServer& http, const ServerConfig& config, std::string_view page)
      : http_(http),
        config_(config),
        page_(page),
        metrics_(config.model_name),
        calls_(http, config, metrics_) {}

  void handle(const std::shared_ptr<HttpExchange>& exchange);
  std::optional<HttpResponse> refusal_of(const HttpRequest& request);

  void set_model(const ServedModel& model) {
    http_.post([this, model] {
      model_ = model;
      calls_.set_model(model);
      if (state_ == State::kLoading) state_ = State::kServing;
    });
  }

  void drain(std::function<void()> drained) {
    http_.post([this, drained = std::move(drained)] {
      if (state_ != State::kFailed) state_ = State::kDraining;
      calls_.when_empty(drained);
    });
  }

  void cancel_all() {
    http_.post([this] { calls_.cancel_all(); });
  }

  void fail(const Status& status) {
    http_.post([this, message = status.message()] {
      state_ = State::kFailed;
      failure_ = message;
      calls_.cancel_all();
    });
  }

  CallTable& calls() { return calls_; }

 private:
  enum class State { kLoading, kServing, kDraining, kFailed };

  void serve(Endpoint endpoint, const std::shared_ptr<HttpExchange>& exchange);
  void answer_model(HttpExchange& exchange);
  void answer_status(HttpExchange& exchange, bool good);
  void answer_metrics(HttpExchange& exchange);
  void answer_page(HttpExchange& exchange);
  void answer_unknown(HttpExchange& exchange);
  std::string_view state_name() const;
  std::string state_reason() const;

  HttpServer& http_;
  const ServerConfig config_;
  const std::string_view page_;
  ServerMetrics metrics_;
  State state_ = State::kLoading;
  std::string failure_;  // the engine's, in kFailed
  ServedModel model_;    // from kServing on
  CallTable calls_;
};

void ModelServer::Impl::handle(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (std::optional<HttpResponse> refusal = refusal_of(request)) {
    return exchange->respond(*std::move(refusal));
  }
  serve(find_route(request.path)->endpoint, exchange);
}

// By path, method, key and state; `request` may have no body yet.
std::optional<HttpResponse> ModelServer::Impl::refusal_of(const HttpRequest& request) {
  const Route* route = find_route(request.path);
  if (route == nullptr) return error_response(metrics_, unknown_path(request.path));
  if (!allows(*route, request.method)) {
    const std::string allow(route->methods);
    return error_response(
        metrics_,
        error_of(405,
                 request.path + " does not take " + request.method + "; it takes " + allow + ".",
                 "method_not_allowed"),
        {{"Allow", allow}});
  }
  if (route->needs_key && !is_authorized(request.header("Authorization"), config_.api_keys)) {
    return error_response(
        metrics_,
        error_of(401, "This server needs an API key: send it as \"Authorization: Bearer KEY\".",
                 "invalid_api_key"),
        {{"WWW-Authenticate", "Bearer"}});
  }
  if (route->needs_model && state_ != State::kServing) {
    return error_response(metrics_, not_serving(state_reason()));
  }
  return {};
}

void ModelServer::Impl::serve(Endpoint endpoint, const std::shared_ptr<HttpExchange>& exchange) {
  switch (endpoint) {
    case Endpoint::kModels:
      return answer_json(*exchange, models_json(model_.card));
    case Endpoint::kModel:
      return answer_model(*exchange);
    case Endpoint::kChatCompletions:
    case Endpoint::kCompletions:
    case Endpoint::kTokenize:
    case Endpoint::kDetokenize:
      return calls_.begin(endpoint, exchange);
    case Endpoint::kHealth:
      return answer_status(*exchange, state_ != State::kFailed);
    case Endpoint::kReady:
      return answer_status(*exchange, state_ == State::kServing);
    case Endpoint::kMetrics:
      return answer_metrics(*exchange);
    case Endpoint::kVersion:
      return answer_json(*exchange, "{\"version\": \"" ENCORE_VERSION "\"}");
    case Endpoint::kPage:
      return answer_page(*exchange);
  }
}

void ModelServer::Impl::answer_model(HttpExchange& exchange) {
  const std::string wanted = model_in_path(exchange.request().path);
  if (wanted != model_.card.name) {
    return answer_error(exchange, metrics_, model_not_found(wanted, model_.card.name));
  }
  answer_json(exchange, model_json(model_.card));
}

// Not counted as a refusal: probes are no users.
void ModelServer::Impl::answer_status(HttpExchange& exchange, bool good) {
  if (!good) {
    ApiError error = not_serving(state_reason());
    error.code = state_name();
    return exchange.respond({.status = 503, .body = to_json(error), .headers = {}});
  }
  std::string body = "{\"status\": \"";
  body.append(state_name()).append("\"}");
  answer_json(exchange, std::move(body));
}

void ModelServer::Impl::answer_metrics(HttpExchange& exchange) {
  if (!config_.metrics) return answer_unknown(exchange);
  MetricsSnapshot snapshot;
  if (model_.engine != nullptr) snapshot.engine = model_.engine->stats();
  snapshot.engine.finished[static_cast<size_t>(FinishReason::kDeadline)] += calls_.num_timed_out();
  snapshot.http = http_.stats();
  snapshot.max_running_requests = model_.max_running_requests;
  snapshot.page_size = model_.page_size;
  snapshot.requests_tokenizing = calls_.num_preparing();
  snapshot.ready = state_ == State::kServing;
  snapshot.draining = state_ == State::kDraining;
  exchange.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = metrics_.render(snapshot),
                    .headers = {}});
}

void ModelServer::Impl::answer_page(HttpExchange& exchange) {
  if (!config_.page || page_.empty()) return answer_unknown(exchange);
  exchange.respond({.content_type = "text/html; charset=utf-8",
                    .body = std::string(page_),
                    .headers = {{"Cache-Control", "no-cache"},
                                {"Content-Security-Policy", "frame-ancestors 'none'"},
                                {"X-Content-Type-Options", "nosniff"}}});
}

void ModelServer::Impl::answer_unknown(HttpExchange& exchange) {
  answer_error(exchange, metrics_, unknown_path(exchange.request().path));
}

std::string_view ModelServer::Impl::state_name() const {
  switch (state_) {
    case State::kLoading:
      return "loading";
    case State::kServing:
      return "serving";
    case State::kDraining:
      return "draining";
    case State::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string ModelServer::Impl::state_reason() const {
  switch (state_) {
    case State::kLoading:
      return "The model is being loaded. Try again later.";
    case State::kDraining:
      return "The server is shutting down and takes no new requests.";
    case State::kFailed:
      return "The engine has failed and serves nothing more: " + failure_;
    case State::kServing:
      break;
  }
  return {};
}

ModelServer::ModelServer(HttpServer& http, const ServerConfig& config, std::string_view page)
    : impl_(std::make_unique<Impl>(http, config, page)) {}

ModelServer::~ModelServer() = default;

HttpHandler ModelServer::handler() {
  return [impl = impl_.get()](const std::shared_ptr<HttpExchange>& exchange) {
    impl->handle(exchange);
  };
}

HttpHeadCheck ModelServer::head_check() {
  return [impl = impl_.get()](const HttpRequest& head) { return impl->refusal_of(head); };
}

EventSink ModelServer::event_sink() {
  return
      [impl = impl_.get()](std::vector<RequestEvent>& events) { impl->calls().put_events(events); };
}

void ModelServer::set_model(const ServedModel& model) { impl_->set_model(model); }

void ModelServer::drain(std::function<void()> drained) { impl_->drain(std::move(drained)); }

void ModelServer::cancel_all() { impl_->cancel_all(); }

void ModelServer::fail(const Status& status) { impl_->fail(status); }

int64_t ModelServer::requests_in_progress() const { return impl_->calls().size(); }

bool ModelServer::end_preparations(std::chrono::milliseconds time) {
  return impl_->calls().end_preparations(time);
}

}  // namespace encore
