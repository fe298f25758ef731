#include "http/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "http/exchange.h"

namespace encore {
namespace {

constexpr size_t kMaxReadAhead = 64 << 10;

// A body must come, and a complete answer go, at this rate on the whole, or a client could hold a
// connection for ever with a byte now and then. A head must be whole within the idle limit.
constexpr int64_t kMinBytesPerSecond = 1024;

// Bodies that are being received, in bodies of the largest size that is allowed: memory that
// clients can make the server hold.
constexpr int64_t kLargestBodies = 8;

// How long a client may take nothing of a stream of which it leaves too much unread.
constexpr int64_t kMaxStuckMs = 5'000;

// How long a client may take to close its end after ours.
constexpr int64_t kLingerQuietMs = 2'000;
constexpr int64_t kLingerMs = 10'000;

int64_t max_bytes_receiving(const HttpOptions& options) {
  return kLargestBodies * options.max_body_bytes;
}

// To an exception, whose text is for nobody outside.
HttpResponse handler_failed(const HttpContext& context) {
  return error_response(context, 500, "the server failed to handle the request");
}

}  // namespace

HttpSession::HttpSession(HttpContext& context, std::function<void()> wake, int64_t now_ms)
    : context_(context),
      wake_(std::move(wake)),
      request_start_ms_(now_ms),
      last_input_ms_(now_ms) {}

HttpSession::~HttpSession() { stop(); }

// --- What comes in -----------------------------------------------------------------------------

bool HttpSession::wants_input() const {
  if (input_ended_) return false;
  const bool answering = phase_ == Phase::kAnswering || phase_ == Phase::kSending;
  return !answering || ahead_.size() < kMaxReadAhead;
}

bool HttpSession::takes_requests() const {
  return phase_ == Phase::kIdle || phase_ == Phase::kReceiving;
}

void HttpSession::receive(std::string_view bytes, int64_t now_ms) {
  last_input_ms_ = now_ms;
  if (phase_ == Phase::kLingering || phase_ == Phase::kClosed) return;
  if (takes_requests() && ahead_.empty()) {
    const size_t used = parse(bytes, now_ms);
    ahead_.append(bytes.substr(used));
    return;
  }
  ahead_.append(bytes);
  if (takes_requests()) parse_ahead(now_ms);
}

void HttpSession::parse_ahead(int64_t now_ms) {
  ahead_.erase(0, parse(ahead_, now_ms));
  if (ahead_.empty()) std::string().swap(ahead_);
}

size_t HttpSession::parse(std::string_view bytes, int64_t now_ms) {
  if (bytes.empty()) return 0;
  if (parser_ == nullptr) {
    parser_ = std::make_unique<RequestParser>(
        ParserLimits{.max_header_bytes = context_.options.max_header_bytes,
                     .max_body_bytes = context_.options.max_body_bytes});
    request_start_ms_ = now_ms;
    phase_ = Phase::kReceiving;
  }
  const bool had_head = parser_->head_complete();
  const size_t used = parser_->put(bytes);
  if (parser_->refused()) {
    refuse(parser_->refusal_status(), parser_->refusal_message());
  } else if (parser_->complete()) {
    dispatch();
  } else if (parser_->head_complete()) {
    take_part(!had_head, now_ms);
  }
  return used;
}

void HttpSession::receive_end() {
  input_ended_ = true;
  switch (phase_) {
    case Phase::kAnswering:
      return lose_client();
    case Phase::kSending:  // the answer may still be wanted; what was sent ahead is not
      keep_alive_ = false;
      return;
    default:
      return close();
  }
}

void HttpSession::connection_failed() {
  input_ended_ = true;
  if (phase_ == Phase::kAnswering || phase_ == Phase::kSending) return lose_client();
  close();
}

// --- The request and its handler ---------------------------------------------------------------

std::string HttpSession::request_id_of(const HttpRequest& request) {
  const std::string_view given = request.header("X-Request-Id");
  return is_fit_request_id(given) ? std::string(given) : context_.ids.next();
}

void HttpSession::dispatch() {
  const std::unique_ptr<RequestParser> parser = end_receiving();
  HttpRequest& request = parser->request();
  request_id_ = request_id_of(request);
  request.id = request_id_;
  bodyless_ = request.method == "HEAD";
  http_1_0_ = parser->is_http_1_0();
  keep_alive_ = parser->keep_alive();
  streaming_ = false;
  phase_ = Phase::kAnswering;
  context_.counters.requests.fetch_add(1, std::memory_order_relaxed);
  const auto exchange = std::make_shared<SessionExchange>(*this, std::move(request));
  exchange_ = exchange.get();
  call_handler(exchange);
}

void HttpSession::call_handler(const std::shared_ptr<SessionExchange>& exchange) {
  try {
    context_.handler(exchange);
  } catch (...) {
    // A stream that has begun can only be cut off.
    if (exchange_ != exchange.get()) return;
    if (streaming_) return abandon();
    keep_alive_ = false;
    respond(handler_failed(context_));
  }
}

// The head, or a piece of the body; the rest is still to come.
void HttpSession::take_part(bool is_first, int64_t now_ms) {
  if (std::optional<HttpResponse> refusal = is_first ? check_head() : std::nullopt) {
    context_.counters.requests.fetch_add(1, std::memory_order_relaxed);
    return answer_early(*std::move(refusal));
  }
  if (!fits_beside_others(is_first)) return refuse_for_others(now_ms);
  if (is_first && parser_->expects_continue()) output_.add_head("HTTP/1.1 100 Continue\r\n\r\n");
}

std::optional<HttpResponse> HttpSession::check_head() {
  if (!context_.head_check) return {};
  try {
    return context_.head_check(parser_->request());
  } catch (...) {
    return handler_failed(context_);
  }
}

// What is announced must fit as things are now; it takes no room before it comes, so that
// announcing costs the others nothing.
bool HttpSession::fits_beside_others(bool is_first) {
  const int64_t kept = parser_->kept_bytes();
  context_.body_bytes_receiving += kept - counted_bytes_;
  counted_bytes_ = kept;
  const int64_t to_come = is_first ? std::max(parser_->announced_bytes() - kept, int64_t{0}) : 0;
  return context_.body_bytes_receiving + to_come <= max_bytes_receiving(context_.options);
}

void HttpSession::refuse_for_others(int64_t now_ms) {
  context_.counters.requests_refused.fetch_add(1, std::memory_order_relaxed);
  std::string reason = "over " + std::to_string(max_bytes_receiving(context_.options)) +
                       " bytes of requests are being received, which is " +
                       std::to_string(kLargestBodies) + " times server.max_body_bytes";
  if (context_.bodies_refused_line.due(now_ms)) spdlog::warn("503 to new requests: {}", reason);
  HttpResponse response = error_response(context_, 503, reason.append("; try again later"));
  response.headers.emplace_back("Retry-After", "1");
  answer_early(std::move(response));
}

// Of what is received no more is counted: it is whole, or nobody's.
std::unique_ptr<RequestParser> HttpSession::end_receiving() {
  context_.body_bytes_receiving -= std::exchange(counted_bytes_, 0);
  return std::move(parser_);
}

void HttpSession::refuse(int32_t status, std::string_view message) {
  context_.counters.requests_refused.fetch_add(1, std::memory_order_relaxed);
  answer_early(error_response(context_, status, message));
}

// A request that was not received whole: where the next one begins is not known.
void HttpSession::answer_early(HttpResponse response) {
  const std::unique_ptr<RequestParser> parser = end_receiving();
  request_id_ = request_id_of(parser->request());
  bodyless_ = parser->request().method == "HEAD";
  http_1_0_ = parser->is_http_1_0();
  keep_alive_ = false;
  phase_ = Phase::kAnswering;
  std::string body = std::move(response.body);
  send_whole(response, std::move(body));
}

void HttpSession::refuse_connection() {
  request_id_ = context_.ids.next();
  keep_alive_ = false;
  phase_ = Phase::kAnswering;
  HttpResponse response =
      error_response(context_, 503,
                     "the server has its limit of " + std::to_string(context_.room.connections) +
                         " connections; try again later");
  response.headers.emplace_back("Retry-After", "1");
  std::string body = std::move(response.body);
  send_whole(response, std::move(body));
}

// --- The answer --------------------------------------------------------------------------------

void HttpSession::begin_answer(ResponseHead& head) {
  if (context_.draining) keep_alive_ = false;
  if (head.status == 204 || head.status == 304) head.framing = BodyFraming::kNone;
  if (head.framing == BodyFraming::kNone) bodyless_ = true;
  if (head.framing == BodyFraming::kClose) keep_alive_ = false;
  head.request_id = request_id_;
  head.keep_alive = keep_alive_;
  head.to_http_1_0 = http_1_0_;
  head.now = std::time(nullptr);
  output_.add_head(encode_head(head));
}

void HttpSession::send_whole(const HttpResponse& response, std::string body) {
  ResponseHead head{.status = response.status,
                    .content_type = response.content_type,
                    .headers = &response.headers,
                    .content_length = body.size()};
  begin_answer(head);
  if (!bodyless_) output_.set_body(std::move(body));
  complete_answer();
}

void HttpSession::respond(HttpResponse response) {
  assert(phase_ == Phase::kAnswering && !streaming_ && "one answer to a request");
  if (streaming_) return;
  std::string body = std::move(response.body);
  send_whole(response, std::move(body));
}

void HttpSession::start_stream(int32_t status, std::string_view content_type,
                               const HttpHeaders& headers) {
  assert(phase_ == Phase::kAnswering && !streaming_ && "one answer to a request");
  if (streaming_) return;
  ResponseHead head{.status = status,
                    .content_type = content_type,
                    .headers = &headers,
                    .framing = http_1_0_ ? BodyFraming::kClose : BodyFraming::kChunked};
  begin_answer(head);
  streaming_ = true;
  if (!bodyless_ && head.framing == BodyFraming::kChunked) output_.start_chunks();
  wake_();
}

void HttpSession::write(std::string_view data) {
  assert(streaming_ && "start_stream() comes first");
  if (!streaming_ || bodyless_ || data.empty()) return;
  // One write may be of any size, an echo say, if the client has kept up before.
  if (is_behind()) added_behind_bytes_ += static_cast<int64_t>(data.size());
  output_.append(data);
  wake_();
}

void HttpSession::finish() {
  assert(streaming_ && "start_stream() comes first");
  if (!streaming_) return;
  output_.end();
  complete_answer();
}

void HttpSession::complete_answer() {
  phase_ = Phase::kSending;
  last_output_ms_ = -1;
  added_behind_bytes_ = 0;
  stuck_since_ms_ = -1;
  streaming_ = false;
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->cut_loose();
  wake_();
}

void HttpSession::abandon() {
  // Without chunks a cut answer looks like a whole one, unless the connection is reset.
  must_reset_ = streaming_ && http_1_0_;
  exchange_->cut_loose();
  exchange_ = nullptr;
  close();
  wake_();
}

// --- What goes out -----------------------------------------------------------------------------

void HttpSession::sent(size_t bytes, int64_t now_ms) {
  start_send_clock(now_ms);
  output_.consume(bytes);
  stuck_since_ms_ = -1;
  last_output_ms_ = now_ms;
  sent_bytes_ += static_cast<int64_t>(bytes);
}

void HttpSession::start_send_clock(int64_t now_ms) {
  if (last_output_ms_ >= 0) return;
  last_output_ms_ = now_ms;
  sending_since_ms_ = now_ms;
  sent_bytes_ = 0;
}

bool HttpSession::is_behind() const {
  return static_cast<int64_t>(output_.pending_bytes()) > context_.options.max_unread_bytes;
}

void HttpSession::check_unread() {
  if (phase_ != Phase::kAnswering) return;
  if (!is_behind()) {
    added_behind_bytes_ = 0;
  } else if (added_behind_bytes_ > context_.options.max_unread_bytes) {
    drop_reader();
  }
}

void HttpSession::check_reader(int64_t now_ms) {
  if (!is_behind()) {
    stuck_since_ms_ = -1;
  } else if (stuck_since_ms_ < 0) {
    stuck_since_ms_ = now_ms;
  } else if (now_ms - stuck_since_ms_ >= kMaxStuckMs) {
    drop_reader();
  }
}

void HttpSession::drop_reader() {
  must_reset_ = true;
  lose_client();
}

bool HttpSession::advance(int64_t now_ms) {
  if (phase_ == Phase::kSending && output_.empty()) {
    if (keep_alive_ && !context_.draining) {
      phase_ = Phase::kIdle;
      last_input_ms_ = now_ms;  // the idle time starts here
    } else if (input_ended_) {
      close();
    } else {
      phase_ = Phase::kLingering;
      ahead_.clear();
      lingering_since_ms_ = now_ms;
      last_input_ms_ = now_ms;
    }
  }
  if (phase_ != Phase::kIdle || ahead_.empty()) return false;
  parse_ahead(now_ms);
  return true;
}

// --- Time and ends -----------------------------------------------------------------------------

void HttpSession::check_time(int64_t now_ms) {
  const int64_t idle_ms = context_.options.idle_timeout_ms;
  const int64_t quiet_ms = now_ms - last_input_ms_;
  const auto time_for = [idle_ms](int64_t bytes) {
    return idle_ms + bytes * 1000 / kMinBytesPerSecond;
  };
  switch (phase_) {
    case Phase::kIdle:
      if (quiet_ms > idle_ms) close();
      return;
    case Phase::kReceiving: {
      const int64_t allowed_ms = time_for(parser_->body_bytes());
      if (quiet_ms > idle_ms || now_ms - request_start_ms_ > allowed_ms) {
        refuse(408, "the request did not arrive in time: the limit is " + std::to_string(idle_ms) +
                        " ms for its headers, and between any two pieces of its body");
      }
      return;
    }
    case Phase::kAnswering:
      return check_reader(now_ms);
    case Phase::kSending:
      start_send_clock(now_ms);
      if (now_ms - last_output_ms_ > idle_ms ||
          now_ms - sending_since_ms_ > time_for(sent_bytes_)) {
        connection_failed();
      }
      return;
    case Phase::kLingering:
      if (quiet_ms > kLingerQuietMs || now_ms - lingering_since_ms_ > kLingerMs) close();
      return;
    default:
      return;
  }
}

void HttpSession::drain() {
  if (phase_ == Phase::kIdle) close();
}

void HttpSession::stop() {
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->cut_loose();
  close();
}

void HttpSession::lose_client() {
  context_.counters.clients_gone.fetch_add(1, std::memory_order_relaxed);
  close();
  if (exchange_ == nullptr) return;
  const auto callback = std::exchange(exchange_, nullptr)->lose_client();
  if (callback) callback();
}

void HttpSession::close() {
  phase_ = Phase::kClosed;
  end_receiving();
  std::string().swap(ahead_);
}

}  // namespace encore
