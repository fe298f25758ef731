// Whole answers.
#pragma once

#include <string>

#include "http/http_server.h"
#include "metrics/server_metrics.h"
#include "openai/api_error.h"

namespace encore {

void answer_json(HttpExchange& exchange, std::string body);

// Also counts the refusal. 429 and 503 say when to come again.
HttpResponse error_response(ServerMetrics& metrics, const ApiError& error,
                            HttpHeaders headers = {});
void answer_error(HttpExchange& exchange, ServerMetrics& metrics, const ApiError& error);

// The server takes no requests: it is loading, draining or has failed.
ApiError not_serving(std::string reason);

}  // namespace encore
