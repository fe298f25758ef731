#include "http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "http/ascii.h"

namespace encore {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// Of a body whose length is announced, as much is reserved at once; the rest as it comes, so that
// announcing costs nothing.
constexpr uint64_t kMaxReservedBytes = 1 << 20;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::string_view malformed_part(beast::error_code error) {
  if (error == http::error::bad_method) return "the method";
  if (error == http::error::bad_target) return "the target";
  if (error == http::error::bad_version)
    return "the version: HTTP/1.0 and HTTP/1.1 are spoken here";
  if (error == http::error::bad_field) return "a header's name";
  if (error == http::error::bad_value) return "a header's value";
  if (error == http::error::bad_obs_fold) return "a header that goes on over several lines";
  if (error == http::error::bad_line_ending) return "the end of a line: CR LF is expected";
  if (error == http::error::bad_content_length) return "Content-Length";
  if (error == http::error::bad_transfer_encoding) return "Transfer-Encoding";
  if (error == http::error::bad_chunk) return "a chunk of the body";
  if (error == http::error::bad_chunk_extension) return "a chunk's extension";
  return "HTTP";
}

// Splits "/path?query", or "http://host/path?query". False if it is neither, nor "*".
bool split_target(std::string_view target, HttpRequest& request) {
  if (!is_ascii(target) || target.front() == '?') return false;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string_view::npos) {
      target = "/";
    } else {
      target.remove_prefix(path);
    }
    break;
  }
  const size_t question = target.find('?');
  request.path = std::string(question == 0 ? "/" : target.substr(0, question));
  if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
  return request.path.front() == '/' || request.path == "*";
}

}  // namespace

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(const ParserLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<uint32_t>(limits.max_header_bytes));
    body_limit(static_cast<uint64_t>(limits.max_body_bytes));
  }

  size_t take(std::string_view bytes);

  bool complete() const { return is_done(); }
  bool head_complete() const { return head_complete_; }
  bool expects_continue() const {
    return head_complete_ && expects_continue_ && !is_done() && body_bytes == 0;
  }
  bool refused() const { return refusal_status != 0; }
  bool http_1_0() const { return version_ == 10; }
  bool client_keeps_alive() const { return keep_alive_; }

  HttpRequest request;
  int32_t refusal_status = 0;
  std::string refusal_message;
  int64_t body_bytes = 0;
  int64_t announced_bytes = 0;

 protected:
  void on_request_impl(http::verb verb, beast::string_view method, beast::string_view target,
                       int version, beast::error_code& error) override;
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_field_impl(http::field field, beast::string_view name, beast::string_view value,
                     beast::error_code& error) override;
  void on_header_impl(beast::error_code& error) override;
  void on_body_init_impl(const boost::optional<uint64_t>& length, beast::error_code&) override {
    if (length && keeps_body()) request.body.reserve(std::min(*length, kMaxReservedBytes));
  }
  size_t on_body_impl(beast::string_view data, beast::error_code&) override {
    return add_to_body(data);
  }
  void on_chunk_header_impl(uint64_t, beast::string_view, beast::error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, beast::string_view data, beast::error_code&) override {
    return add_to_body(data);
  }
  void on_finish_impl(beast::error_code&) override {}

 private:
  // Also stops Beast.
  void refuse(int32_t status, std::string message, beast::error_code& error);
  void refuse(int32_t status, std::string message);
  void explain(beast::error_code error);
  void refuse_header_size();
  void check_limits(size_t left_over);
  bool count_head(size_t bytes, beast::error_code& error);
  bool keeps_body() const { return request.method != "GET" && request.method != "HEAD"; }
  size_t add_to_body(beast::string_view data);

  const ParserLimits limits_;
  int64_t head_bytes_ = 0;     // taken while the head was incomplete
  int64_t counted_bytes_ = 0;  // of request line and headers, by what they hold
  int version_ = 11;
  int hosts_ = 0;
  int lengths_ = 0;
  bool started_ = false;
  bool head_complete_ = false;
  bool keep_alive_ = false;
  bool expects_continue_ = false;
};

void RequestParser::Impl::refuse(int32_t status, std::string message) {
  refusal_status = status;
  refusal_message = std::move(message);
}

void RequestParser::Impl::refuse(int32_t status, std::string message, beast::error_code& error) {
  refuse(status, std::move(message));
  error = http::error::bad_value;
}

void RequestParser::Impl::refuse_header_size() {
  refuse(431, "the request's headers are larger than " + std::to_string(limits_.max_header_bytes) +
                  " bytes, which is the limit");
}

void RequestParser::Impl::explain(beast::error_code error) {
  if (refused()) return;  // by a callback, which knows better
  if (error == http::error::header_limit) return refuse_header_size();
  if (error == http::error::body_limit) {
    return refuse(413, "the request's body is larger than " +
                           std::to_string(limits_.max_body_bytes) + " bytes, which is the limit");
  }
  std::string message = "malformed request: cannot read ";
  message += malformed_part(error);
  refuse(400, std::move(message));
}

void RequestParser::Impl::on_request_impl(http::verb, beast::string_view method,
                                          beast::string_view target, int version,
                                          beast::error_code& error) {
  version_ = version;
  constexpr size_t kRest = 12;  // two spaces, the version, CR LF
  if (!count_head(method.size() + target.size() + kRest, error)) return;
  request.method = view(method);
  if (!split_target(view(target), request)) {
    refuse(400, "malformed request: the target must be a path that starts with '/', in ASCII",
           error);
  }
}

void RequestParser::Impl::on_field_impl(http::field field, beast::string_view name,
                                        beast::string_view value, beast::error_code& error) {
  if (head_complete_) return;  // trailers say nothing that anyone here listens to
  if (!count_head(name.size() + value.size() + 4, error)) return;
  if (field == http::field::host) ++hosts_;
  if (field == http::field::content_length &&
      (++lengths_ > 1 || value.find(',') != beast::string_view::npos)) {
    return refuse(400, "malformed request: more than one Content-Length", error);
  }
  if (field == http::field::transfer_encoding &&
      (version_ < 11 || !equal_ignoring_case(view(value), "chunked"))) {
    return refuse(400, "the only Transfer-Encoding understood is chunked, in HTTP/1.1", error);
  }
  if (field == http::field::expect) {
    if (!equal_ignoring_case(view(value), "100-continue")) {
      return refuse(417, "the only expectation that can be met is 100-continue", error);
    }
    expects_continue_ = version_ >= 11;
  }
  request.headers.emplace_back(view(name), view(value));
}

void RequestParser::Impl::on_header_impl(beast::error_code& error) {
  head_complete_ = true;
  keep_alive_ = keep_alive();
  if (keeps_body()) announced_bytes = static_cast<int64_t>(content_length().value_or(0));
  if (hosts_ > 1 || (hosts_ == 0 && version_ >= 11)) {
    refuse(400, "malformed request: HTTP/1.1 asks for exactly one Host header", error);
  }
}

size_t RequestParser::Impl::add_to_body(beast::string_view data) {
  body_bytes += static_cast<int64_t>(data.size());
  if (keeps_body()) request.body.append(data.data(), data.size());
  return data.size();
}

size_t RequestParser::Impl::take(std::string_view bytes) {
  size_t used = 0;
  // One empty line before a request is forgiven (RFC 9112, section 2.2).
  if (!started_) {
    if (bytes == "\r") return 0;
    if (bytes.substr(0, 2) == "\r\n") used = 2;
    started_ = true;
  }
  const bool was_head = !head_complete_;
  while (!is_done() && used < bytes.size()) {
    beast::error_code error;
    const size_t taken = basic_parser::put(
        boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += taken;
    if (error && error != http::error::need_more) {
      explain(error);
      return used;
    }
    if (error || taken == 0) break;
  }
  if (was_head && !head_complete_) head_bytes_ += static_cast<int64_t>(used);
  if (!is_done()) check_limits(bytes.size() - used);
  return used;
}

// Beast limits what it is given at once, and what is left of it; the sum is ours.
bool RequestParser::Impl::count_head(size_t bytes, beast::error_code& error) {
  counted_bytes_ += static_cast<int64_t>(bytes);
  if (counted_bytes_ <= limits_.max_header_bytes) return true;
  refuse_header_size();
  error = http::error::header_limit;
  return false;
}

// A head, or a chunk's head, that comes in pieces and never ends.
void RequestParser::Impl::check_limits(size_t left_over) {
  const int64_t waiting = static_cast<int64_t>(left_over) + (head_complete_ ? 0 : head_bytes_);
  if (waiting > limits_.max_header_bytes) refuse_header_size();
}

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}

RequestParser::~RequestParser() = default;

size_t RequestParser::put(std::string_view bytes) { return impl_->take(bytes); }

bool RequestParser::head_complete() const { return impl_->head_complete(); }

bool RequestParser::complete() const { return impl_->complete() && !impl_->refused(); }

int64_t RequestParser::body_bytes() const { return impl_->body_bytes; }

int64_t RequestParser::kept_bytes() const {
  return static_cast<int64_t>(impl_->request.body.size());
}

int64_t RequestParser::announced_bytes() const { return impl_->announced_bytes; }

bool RequestParser::expects_continue() const { return impl_->expects_continue(); }

bool RequestParser::refused() const { return impl_->refused(); }

int32_t RequestParser::refusal_status() const { return impl_->refusal_status; }

const std::string& RequestParser::refusal_message() const { return impl_->refusal_message; }

bool RequestParser::is_http_1_0() const { return impl_->http_1_0(); }

bool RequestParser::keep_alive() const { return impl_->client_keeps_alive(); }

HttpRequest& RequestParser::request() { return impl_->request; }

}  // namespace encore
