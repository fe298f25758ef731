// The head of an answer, as it goes over the wire.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.h"

namespace encore {

// How the client learns where the body ends.
enum class BodyFraming {
  kNone,     // there is no body and no length either: 204, 304
  kLength,   // Content-Length
  kChunked,  // Transfer-Encoding: chunked
  kClose,    // the end of the connection: a stream to HTTP/1.0
};

struct ResponseHead {
  int32_t status = 200;
  std::string_view content_type = {};
  const HttpHeaders* headers = nullptr;  // further ones, or null
  std::string_view request_id = {};
  BodyFraming framing = BodyFraming::kLength;
  size_t content_length = 0;  // of kLength
  bool keep_alive = true;
  bool to_http_1_0 = false;  // such a client must be told that the connection stays open
  std::time_t now = 0;       // for Date
};

// Status line, headers and the empty line. Characters in values that would end a line become
// spaces: a value cannot forge a header.
std::string encode_head(const ResponseHead& head);

}  // namespace encore
