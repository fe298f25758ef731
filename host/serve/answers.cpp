#include "serve/answers.h"

#include <utility>

namespace encore {

void answer_json(HttpExchange& exchange, std::string body) {
  exchange.respond({.body = std::move(body), .headers = {}});
}

HttpResponse error_response(ServerMetrics& metrics, const ApiError& error, HttpHeaders headers) {
  if (error.http_status == 429) headers.emplace_back("Retry-After", "1");
  if (error.http_status == 503) headers.emplace_back("Retry-After", "5");
  metrics.refused(error.http_status);
  return {.status = error.http_status, .body = to_json(error), .headers = std::move(headers)};
}

void answer_error(HttpExchange& exchange, ServerMetrics& metrics, const ApiError& error) {
  exchange.respond(error_response(metrics, error));
}

ApiError not_serving(std::string reason) {
  ApiError error;
  error.http_status = 503;
  error.message = std::move(reason);
  error.type = "server_error";
  return error;
}

}  // namespace encore
