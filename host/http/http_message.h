// A request and a response of HTTP/1.1, whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace encore {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // "/v1/models": without the query
  std::string query;    // what follows the first '?', or empty
  HttpHeaders headers;  // in order of arrival; values are any bytes but control characters
  std::string body;     // of GET and HEAD empty: it would mean nothing (RFC 9110, section 9.3.1)
  // The client's X-Request-Id if it is fit to be logged (at most 128 printable ASCII characters),
  // else one of our own. Every response carries it.
  std::string id;

  // The first such header's value, its name compared without case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int32_t status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};  // further ones, such as Retry-After
};

}  // namespace encore
