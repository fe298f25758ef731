// HTTP/1.1 on one connection, without the connection: bytes in, bytes out, and what time it is.
//
// Requests are taken one by one: the next is not looked at before the answer to the last has left
// for the client. Meanwhile a client may send 64 KiB ahead; those who send more are not read from
// until then.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_context.h"
#include "http/output_queue.h"
#include "http/request_parser.h"
#include "http/response_head.h"

namespace encore {

class SessionExchange;

// The server's thread only.
class HttpSession {
 public:
  enum class Phase {
    kIdle,       // between requests
    kReceiving,  // in the middle of one
    kAnswering,  // the handler has it
    kSending,    // the answer is complete, and not sent yet
    kLingering,  // sent; our end is to be closed, what still comes is thrown away until the
                 // client's end is closed too: an answer is lost if its connection is reset under
                 // it
    kClosed,     // to be closed at once
  };

  // `wake` is called when there may be something to send or to close; it must not call back at
  // once. Borrows `context`.
  HttpSession(HttpContext& context, std::function<void()> wake, int64_t now_ms);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  Phase phase() const { return phase_; }
  // An answer is cut off whose client takes the end of the connection for its end: reset instead.
  bool must_reset() const { return must_reset_; }

  // What the connection brings.
  bool wants_input() const;
  void receive(std::string_view bytes, int64_t now_ms);
  void receive_end();        // the client has closed its end
  void connection_failed();  // reset, or cannot be written to

  // What it takes away.
  std::array<std::string_view, 3> output() { return output_.next(); }
  void sent(size_t bytes, int64_t now_ms);
  // After as much was sent as would go: drops a client that has left too much unread and falls
  // further behind. check_time() drops the one that takes nothing at all.
  void check_unread();

  // To be called after output was sent. Goes on to the next request, if it is there already, or to
  // the end; true if there may be more to send.
  bool advance(int64_t now_ms);

  void check_time(int64_t now_ms);
  void refuse_connection();  // 503: there are too many. REQUIRES: nothing was received.
  void drain();              // no request after this one
  void stop();               // cuts the exchange loose and closes; nobody is told

  // By the exchange.
  void respond(HttpResponse response);
  void start_stream(int32_t status, std::string_view content_type, const HttpHeaders& headers);
  void write(std::string_view data);
  void finish();
  void abandon();

 private:
  bool takes_requests() const;
  size_t parse(std::string_view bytes, int64_t now_ms);
  void parse_ahead(int64_t now_ms);
  void dispatch();
  void call_handler(const std::shared_ptr<SessionExchange>& exchange);
  void take_part(bool is_first, int64_t now_ms);
  std::optional<HttpResponse> check_head();
  bool fits_beside_others(bool is_first);
  void refuse_for_others(int64_t now_ms);
  std::unique_ptr<RequestParser> end_receiving();
  void refuse(int32_t status, std::string_view message);
  void answer_early(HttpResponse response);
  std::string request_id_of(const HttpRequest& request);
  void begin_answer(ResponseHead& head);
  void send_whole(const HttpResponse& response, std::string body);
  void complete_answer();
  void start_send_clock(int64_t now_ms);
  bool is_behind() const;
  void check_reader(int64_t now_ms);
  void drop_reader();
  void lose_client();
  void close();

  HttpContext& context_;
  const std::function<void()> wake_;
  Phase phase_ = Phase::kIdle;
  std::unique_ptr<RequestParser> parser_;  // while a request is being received
  int64_t counted_bytes_ = 0;              // its share of the context's body_bytes_receiving
  SessionExchange* exchange_ = nullptr;    // while it is being answered
  OutputQueue output_;
  std::string ahead_;  // received, and not parsed yet
  std::string request_id_;
  bool bodyless_ = false;  // whatever the handler gives: an answer to HEAD, 204, 304
  bool http_1_0_ = false;
  bool keep_alive_ = true;
  bool streaming_ = false;  // the head is out, the body follows
  bool input_ended_ = false;
  bool must_reset_ = false;
  int64_t request_start_ms_ = 0;
  int64_t last_input_ms_ = 0;
  // While more of a stream is unread than may be.
  int64_t added_behind_bytes_ = 0;  // to what was unread
  int64_t stuck_since_ms_ = -1;     // nothing was taken since; -1: nobody has looked
  // Of an answer that is complete.
  int64_t last_output_ms_ = -1;  // -1: nobody has looked at the clock since
  int64_t sending_since_ms_ = 0;
  int64_t sent_bytes_ = 0;
  int64_t lingering_since_ms_ = 0;
};

}  // namespace encore
