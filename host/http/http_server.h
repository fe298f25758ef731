// An HTTP/1.1 server: connections, limits, streams. It knows nothing of models.
//
//   auto server = HttpServer::bind(options);          // the port is ours, or an error says why not
//   (*server)->start([](std::shared_ptr<HttpExchange> exchange) {
//     exchange->respond({.body = "{}"});
//   });
//   ...
//   (*server)->stop();
//
// One thread, the server's, reads, writes and calls the handler: handlers must not block, and
// everything of an exchange happens on that thread. Others get there with post().
//
// A client that closes its end counts as gone, even if it goes on reading (a half-close): an
// abandoned request cannot be told from one that is only done sending, and the first is the rule.
// So is a request given up whose client resets the connection, or does not answer TCP's probes
// (about 90 s). A client may send requests ahead (pipelining); the next one is not looked at before
// the answer to the last has been handed to the system. The end of one that sends more than 64 KiB
// ahead is found within a second, and if it waits behind more than the system buffers, only when
// the answer is complete.
//
// TLS is not spoken: put a proxy in front.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "encore/status.h"
#include "http/http_message.h"

namespace encore {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int32_t port = 0;  // 0: any free one
  // More are told 503; of many at once, some only closed. Fewer are served, and a warning says so,
  // if the process may not open as many files.
  int32_t max_connections = 4096;
  // Of a body, without chunks' frames; beyond: 413, at once if Content-Length says so. Of all
  // bodies that are being received together, eight times as much; whose request would not fit is
  // told 503.
  int64_t max_body_bytes = int64_t{32} << 20;
  // Of request line and headers together, of trailers, of a chunk's head; beyond: 431.
  int32_t max_header_bytes = 16 << 10;
  // A connection that brings nothing for this long, between requests or in the middle of one, is
  // closed (408 in the middle of one). Headers must be whole within it, and a body must come at
  // 1 KiB/s on the whole beyond it, or a byte now and then could hold a connection for ever. It
  // also limits how long a complete answer may wait for a client that reads nothing, or less than
  // 1 KiB/s on the whole. Requests that are being answered have no limit here.
  int64_t idle_timeout_ms = 75'000;
  // Bytes of a stream that a client may leave unread, beyond what the system buffers. One write may
  // exceed it, and the client counts as gone if it then takes nothing for 5 s, or if as much again
  // is written before it is within the limit.
  int64_t max_unread_bytes = int64_t{8} << 20;
  // The body of the answers that the server gives by itself (400, 408, 413, 417, 431, 500, 503), as
  // JSON. `message` is valid UTF-8. Without it the body is the message, as plain text.
  std::function<std::string(int32_t status, std::string_view message)> error_body;
};

// As of now; any thread.
struct HttpStats {
  int64_t connections_open = 0;
  int64_t connections_accepted = 0;
  int64_t connections_refused = 0;  // over max_connections: answered 503
  int64_t accept_errors = 0;        // the system gave no connection: out of descriptors or memory
  int64_t requests = 0;
  // Answered by the server itself: malformed, too large, too slow, too many bytes at once.
  int64_t requests_refused = 0;
  int64_t clients_gone = 0;  // before their answer was complete
};

// One request and its answer: either respond(), or start_stream(), write()... and finish().
// The server's thread only. Whoever answers later keeps the pointer. An exchange that is dropped
// without a complete answer closes its connection.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  // Moves the body out, for who needs it longer than the exchange.
  virtual std::string take_body() = 0;

  // A whole answer. Date, Content-Length, Connection and X-Request-Id are the server's to add.
  // REQUIRES: nothing was answered before.
  virtual void respond(HttpResponse response) = 0;

  // The head of an answer whose length is not known (chunked; for HTTP/1.0 the end of the
  // connection ends it). REQUIRES: nothing was answered before.
  virtual void start_stream(int32_t status, std::string_view content_type, HttpHeaders headers) = 0;
  // Queues data; several calls before the thread is free again go out as one. Ignored once the
  // client is gone.
  virtual void write(std::string_view data) = 0;
  virtual void finish() = 0;

  // False once the client has closed its end, been closed for reading too slowly, or failed; once
  // the answer is complete; once the server was stopped. All else but request() does nothing then.
  virtual bool is_open() const = 0;
  // Called once, on the server's thread, as soon as the client is found to be gone before its
  // answer was complete; while a request is being answered the connection is watched for that.
  // Not called after respond() or finish(), nor by stop(). At once, if it is gone already. Must not
  // throw.
  virtual void on_gone(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;

// Asked about a request whose body is still to come, or the rest of it: an answer refuses it, so
// that nobody is made to receive a body for nothing, and ends its connection (whoever waits for
// "100 Continue" gets it instead). The handler never sees such a request; it sees the others once
// they are whole. `head` has no body and no id yet. On the server's thread; must not block.
using HttpHeadCheck = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

// bind(), start() and stop() by one thread; post() and stats() by any.
class HttpServer {
 public:
  // Takes the port and accepts nothing yet. Raises the process's limit of open files if it is too
  // low for max_connections.
  // Errors: kUnavailable if the port is taken or the address is not this machine's, naming both;
  // kInvalidArgument for an address that is none.
  static Result<std::unique_ptr<HttpServer>> bind(HttpOptions options);

  virtual ~HttpServer() = default;  // stops

  virtual std::string host() const = 0;
  virtual int32_t port() const = 0;  // the one that was taken, if any would do

  // Starts the thread. Once. An exception from either becomes a 500 with error_body.
  virtual void start(HttpHandler handler, HttpHeadCheck head_check = {}) = 0;

  // Runs `work` on the server's thread, in order; it must not throw. After stop() nothing more is
  // run.
  virtual void post(std::function<void()> work) = 0;

  // New connections are refused from now on, idle ones closed, and the others after the answer that
  // is under way. Any thread.
  virtual void drain() = 0;

  // Closes every connection and ends the thread. Idempotent. Not by the server's thread. Exchanges
  // may outlive it.
  virtual void stop() = 0;

  virtual HttpStats stats() const = 0;
};

}  // namespace encore
