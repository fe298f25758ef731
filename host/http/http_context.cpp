#include "http/http_context.h"

namespace encore {

HttpStats HttpCounters::read() const {
  return {.connections_open = connections_open.load(std::memory_order_relaxed),
          .connections_accepted = connections_accepted.load(std::memory_order_relaxed),
          .connections_refused = connections_refused.load(std::memory_order_relaxed),
          .accept_errors = accept_errors.load(std::memory_order_relaxed),
          .requests = requests.load(std::memory_order_relaxed),
          .requests_refused = requests_refused.load(std::memory_order_relaxed),
          .clients_gone = clients_gone.load(std::memory_order_relaxed)};
}

HttpResponse error_response(const HttpContext& context, int32_t status, std::string_view message) {
  HttpResponse response{.status = status};
  if (context.options.error_body) {
    response.body = context.options.error_body(status, message);
  } else {
    response.content_type = "text/plain; charset=utf-8";
    response.body = std::string(message);
  }
  return response;
}

}  // namespace encore
