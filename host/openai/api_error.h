// An error in the shape of OpenAI's API.
#pragma once

#include <cstdint>
#include <string>

#include "encore/status.h"

namespace encore {

// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
struct ApiError {
  int32_t http_status = 400;
  std::string message;  // names value, limit and remedy
  std::string type = "invalid_request_error";
  std::string param;  // the field it is about; empty: null
  std::string code;   // "context_length_exceeded"; empty: null
};

// Always valid UTF-8 and valid JSON, whatever the message holds.
std::string to_json(const ApiError& error);

ApiError bad_request(std::string message, std::string param = {}, std::string code = {});

// What an engine's or tokenizer's error is to a caller: kInvalidArgument 400, kUnavailable 503,
// everything else 500 (type "server_error").
ApiError to_api_error(const Status& status);

}  // namespace encore
