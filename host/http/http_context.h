// What all connections of one server share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/http_server.h"
#include "http/log_interval.h"
#include "http/open_files.h"
#include "http/request_id.h"

namespace encore {

// HttpStats as it is counted: by the server's thread, read by any.
struct HttpCounters {
  std::atomic<int64_t> connections_open = 0;
  std::atomic<int64_t> connections_accepted = 0;
  std::atomic<int64_t> connections_refused = 0;
  std::atomic<int64_t> accept_errors = 0;
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> requests_refused = 0;
  std::atomic<int64_t> clients_gone = 0;

  HttpStats read() const;
};

// The server's thread only, but for `counters`.
struct HttpContext {
  HttpOptions options;
  ConnectionRoom room;  // options.max_connections, or what the system gives
  HttpHandler handler;
  HttpHeadCheck head_check;  // or empty
  HttpCounters counters;
  RequestIds ids;
  int64_t body_bytes_receiving = 0;  // held of bodies that are not whole yet
  LogInterval bodies_refused_line;
  bool draining = false;  // every answer is its connection's last
};

// An answer that the server gives by itself.
HttpResponse error_response(const HttpContext& context, int32_t status, std::string_view message);

}  // namespace encore
