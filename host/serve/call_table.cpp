#include "serve/call_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "serve/answers.h"
#include "serve/reply_id.h"

namespace encore {
namespace {

// Long prompts have a worker of their own, so that they hold up only each other.
constexpr int32_t kWorkers = 2;
constexpr int32_t kWorkersForLong = 1;
constexpr int64_t kLongBodyBytes = 64 << 10;

// Bodies that wait for a worker, in bodies of the largest size that is allowed: memory that clients
// can make the server hold.
constexpr int64_t kLargestBodies = 8;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double ms(int64_t us) { return static_cast<double>(us) / 1000.0; }

ApiError queue_full(int64_t limit) {
  ApiError error;
  error.http_status = 429;
  error.message = "The queue is full: " + std::to_string(limit) +
                  " replies are running or waiting, which is scheduler.max_running_requests plus "
                  "server.max_queue. Try again later.";
  error.type = "rate_limit_error";
  error.code = "queue_full";
  return error;
}

ApiError too_much_to_read(int64_t limit_bytes) {
  ApiError error;
  error.http_status = 429;
  error.message = "Over " + std::to_string(limit_bytes) +
                  " bytes of requests wait to be read, which is " + std::to_string(kLargestBodies) +
                  " times server.max_body_bytes. Try again later.";
  error.type = "rate_limit_error";
  error.code = "queue_full";
  return error;
}

ApiError took_too_long(int32_t limit_s) {
  return not_serving("The request has taken longer than " + std::to_string(limit_s) +
                     " s, which is server.request_timeout_s. Try again later.");
}

ApiError too_many_choices(int64_t wanted, int64_t limit) {
  return bad_request("The request asks for " + std::to_string(wanted) +
                         " choices (n times the number of prompts); this server takes at most " +
                         std::to_string(limit) + " at a time. Lower n or send fewer prompts.",
                     "n");
}

}  // namespace

CallTable::CallTable(HttpServer& http, const ServerConfig& config, ServerMetrics& metrics)
    : http_(http),
      config_(config),
      metrics_(metrics),
      mailbox_([this] { http_.post([this] { deliver(); }); }),
      workers_(kWorkers),
      long_workers_(kWorkersForLong) {}

CallTable::~CallTable() = default;

void CallTable::begin(Endpoint endpoint, std::shared_ptr<HttpExchange> exchange) {
  if (places_taken_ >= max_places()) {
    answer_error(*exchange, metrics_, queue_full(max_places()));
    return;
  }
  const int64_t body_bytes = std::ssize(exchange->request().body);
  const int64_t max_bytes = kLargestBodies * config_.max_body_bytes;
  if (bytes_preparing_ + body_bytes > max_bytes) {
    answer_error(*exchange, metrics_, too_much_to_read(max_bytes));
    return;
  }
  const CallId id = ++last_id_;
  Call& call = calls_[id];
  call.id = id;
  call.arrived = Clock::now();
  call.preparation = std::make_shared<Preparation>();
  call.preparation->endpoint = endpoint;
  call.preparation->body = exchange->take_body();
  call.preparation->deadline = deadline(call);
  call.exchange = std::move(exchange);
  places_taken_ += call.places;
  call.body_bytes = body_bytes;
  bytes_preparing_ += body_bytes;
  ++num_preparing_;
  count_calls();
  // The worker never holds the exchange, which belongs to this thread.
  WorkerPool& workers = body_bytes < kLongBodyBytes ? workers_ : long_workers_;
  workers.run([this, id, work = call.preparation]() mutable {
    prepare(model_, *work);
    work.reset();
    http_.post([this, id] { prepared(id); });
  });
  call.exchange->on_gone([this, id] { client_gone(id); });
}

void CallTable::prepared(CallId id) {
  Call& call = calls_.at(id);
  --num_preparing_;
  bytes_preparing_ -= call.body_bytes;
  const std::shared_ptr<Preparation> work = std::move(call.preparation);
  if (call.answered) {
    --num_abandoned_;
    end(call);
  } else if (work->error) {
    refuse(call, *work->error);
  } else if (work->timed_out && work->num_prompts == 0) {
    refuse(call, took_too_long(config_.request_timeout_s));
  } else if (!work->answer.empty()) {
    answer_json(*call.exchange, std::move(work->answer));
    call.answered = true;
    end(call);
  } else {
    generate(call, *work);
  }
}

void CallTable::generate(Call& call, const Preparation& work) {
  const int64_t choices = int64_t{work.num_prompts} * work.request.n;
  if (choices > max_places()) {
    refuse(call, too_many_choices(choices, max_places()));
    return;
  }
  if (places_taken_ - call.places + choices > max_places()) {
    refuse(call, queue_full(max_places()));
    return;
  }
  places_taken_ += choices - call.places;
  call.places = choices;
  if (work.timed_out) {
    open_reply(call, work);
    time_out(call);
  } else if (add_to_engine(call, work)) {
    open_reply(call, work);
  }
}

bool CallTable::add_to_engine(Call& call, const Preparation& work) {
  Result<std::vector<RequestId>> ids = model_.loop->add(make_request_options(
      work.request, work.prompts, model_.defaults(), model_.card.max_model_len, deadline_us(call)));
  if (!ids.ok()) {
    refuse(call, to_api_error(ids.status()));
    return false;
  }
  call.requests = *std::move(ids);
  for (size_t i = 0; i < call.requests.size(); ++i) {
    choices_[call.requests[i]] = {&call, static_cast<int32_t>(i)};
  }
  return true;
}

void CallTable::open_reply(Call& call, const Preparation& work) {
  const GenerationRequest& request = work.request;
  ReplyHeader header;
  header.is_chat = request.is_chat;
  header.id = make_reply_id(request.is_chat);
  header.created = unix_seconds();
  header.model = model_.card.name;
  header.include_usage = request.include_usage;
  header.num_logprobs = request.num_logprobs;
  const ActiveReply::Shape shape = {request.stream, work.num_prompts, request.n};
  call.reply = std::make_unique<ActiveReply>(
      call.exchange, header, shape,
      [text = model_.text](int32_t token) { return text->token_bytes(token); });
  call.reply->open(work.timed_out ? std::vector<std::string>() : work.echoes);
}

// As the engine would end it.
void CallTable::time_out(Call& call) {
  RequestEvent event;
  event.finish = FinishReason::kDeadline;
  for (int64_t choice = 0; choice < call.places; ++choice) {
    call.reply->add(static_cast<int32_t>(choice), event);
  }
  num_timed_out_ += call.places;
  call.answered = true;
  end(call);
}

void CallTable::client_gone(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  call.client_gone = true;
  if (call.preparation && !call.answered) abandon(call);
  call.answered = true;
  cancel_requests(call);
}

// The worker ends as soon as it finds out; nobody waits for that.
// REQUIRES: the call is being prepared and has not been answered.
void CallTable::abandon(Call& call) {
  call.answered = true;
  call.preparation->abandoned.store(true);
  ++num_abandoned_;
  count_calls();
}

void CallTable::deliver() {
  mailbox_.take(events_);
  for (const RequestEvent& event : events_) deliver(event);
}

void CallTable::deliver(const RequestEvent& event) {
  metrics_.observe(event);
  const auto found = choices_.find(event.request);
  if (found == choices_.end()) return;
  const Choice choice = found->second;
  Call& call = *choice.call;
  if (event.finished()) {
    choices_.erase(found);
    call.requests.erase(std::find(call.requests.begin(), call.requests.end(), event.request));
    --call.places;
    --places_taken_;
  }
  // To somebody who is gone nothing is sent, but the totals are kept.
  call.reply->add(choice.index, event);
  if (call.reply->is_complete() && !call.answered) {
    call.answered = true;
    cancel_requests(call);  // an error of one choice ends the others
  }
  if (call.requests.empty()) end(call);
}

void CallTable::cancel_requests(const Call& call) {
  for (const RequestId request : call.requests) model_.loop->cancel(request);
}

void CallTable::cancel_all() {
  for (auto& [id, call] : calls_) {
    cancel_requests(call);
    if (!call.preparation || call.answered) continue;
    answer_error(*call.exchange, metrics_, not_serving("The server has stopped."));
    abandon(call);
  }
}

void CallTable::refuse(Call& call, const ApiError& error) {
  answer_error(*call.exchange, metrics_, error);
  call.answered = true;
  end(call);
}

void CallTable::end(Call& call) {
  log(call);
  places_taken_ -= call.places;
  calls_.erase(call.id);
  count_calls();
}

void CallTable::count_calls() {
  size_.store(std::ssize(calls_) - num_abandoned_);
  if (size() == 0 && on_empty_) std::exchange(on_empty_, nullptr)();
}

// One line a request; nothing of what it said.
void CallTable::log(const Call& call) {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  const HttpRequest& request = call.exchange->request();
  const double total_ms =
      std::chrono::duration<double, std::milli>(Clock::now() - call.arrived).count();
  const char* gone = call.client_gone ? ", client gone" : "";
  if (!call.reply) {
    spdlog::debug("{} {}: done after {:.1f} ms{}", request.id, request.path, total_ms, gone);
    return;
  }
  const ReplyTotals& totals = call.reply->totals();
  spdlog::debug(
      "{} {}: {} prompt tokens, {} cached, {} output tokens; queued {:.1f} ms, first token after "
      "{:.1f} ms, all after {:.1f} ms; {}{}",
      request.id, request.path, totals.usage.prompt_tokens, totals.usage.cached_tokens,
      totals.usage.completion_tokens, ms(totals.scheduled_us), ms(totals.first_token_us), total_ms,
      finish_reason_name(totals.finish), gone);
}

void CallTable::when_empty(std::function<void()> callback) {
  if (size() == 0) {
    callback();
  } else {
    on_empty_ = std::move(callback);
  }
}

int64_t CallTable::max_places() const {
  return int64_t{model_.max_running_requests} + config_.max_queue;
}

bool CallTable::end_preparations(std::chrono::milliseconds time) {
  const Clock::time_point until = Clock::now() + time;
  workers_.stop();
  long_workers_.stop();
  return workers_.await_end(until) && long_workers_.await_end(until);
}

CallTable::Clock::time_point CallTable::deadline(const Call& call) const {
  if (config_.request_timeout_s == 0) return Clock::time_point::max();
  return call.arrived + std::chrono::seconds(config_.request_timeout_s);
}

int64_t CallTable::deadline_us(const Call& call) const {
  if (config_.request_timeout_s == 0) return -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline(call) - Clock::now()).count();
  return std::max<int64_t>(left, 1);
}

}  // namespace encore
