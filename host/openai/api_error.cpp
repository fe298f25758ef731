#include "openai/api_error.h"

#include <utility>

#include "openai/json_text.h"

namespace encore {
namespace {

void append_string_or_null(const std::string& text, std::string& out) {
  if (text.empty()) {
    out.append("null");
  } else {
    append_json_string(text, out);
  }
}

}  // namespace

std::string to_json(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(error.message, out);
  out.append(",\"type\":");
  append_json_string(error.type, out);
  out.append(",\"param\":");
  append_string_or_null(error.param, out);
  out.append(",\"code\":");
  append_string_or_null(error.code, out);
  out.append("}}");
  return out;
}

ApiError bad_request(std::string message, std::string param, std::string code) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

ApiError to_api_error(const Status& status) {
  ApiError error = bad_request(status.message());
  if (status.code() == StatusCode::kInvalidArgument) return error;
  error.http_status = status.code() == StatusCode::kUnavailable ? 503 : 500;
  error.type = "server_error";
  return error;
}

}  // namespace encore
