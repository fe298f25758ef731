// Bytes to a request, as they come: Boost.Beast's parser, with what it leaves to its user.
//
// Refused beyond what Beast refuses: more than the limits; a body with two lengths (a second
// Content-Length, a list in one, or one beside Transfer-Encoding), or coded in any way but chunked,
// so that nobody before us can read another length than we do (request smuggling); HTTP/1.1 without
// exactly one Host; a target that is neither a path, nor a URL, nor "*", or not ASCII.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/http_message.h"

namespace encore {

struct ParserLimits {
  int64_t max_header_bytes = 0;  // request line and headers; also a chunk's head, or trailers
  int64_t max_body_bytes = 0;
};

// One request's. One thread's.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes what it can of `bytes` and returns how much that was. Unless the request is complete or
  // refused, the rest must come again, with more after it.
  // REQUIRES: neither complete() nor refused().
  size_t put(std::string_view bytes);

  bool head_complete() const;
  bool complete() const;
  int64_t body_bytes() const;  // so far
  int64_t kept_bytes() const;  // of these, in memory: a body of GET or HEAD is thrown away
  // How many kept_bytes() will be, as far as Content-Length says.
  int64_t announced_bytes() const;

  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

  bool refused() const;
  int32_t refusal_status() const;              // 400, 413, 417, 431
  const std::string& refusal_message() const;  // valid UTF-8

  // Known once the head is complete.
  bool is_http_1_0() const;
  bool keep_alive() const;  // whether the client lets the connection stay open

  // What was read so far; its `id` is empty.
  HttpRequest& request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace encore
