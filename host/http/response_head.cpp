#include "http/response_head.h"

#include <array>

namespace encore {
namespace {

std::string_view reason_phrase(int32_t status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";  // the phrase may be empty; the space before it may not go
  }
}

void add_header(std::string& text, std::string_view name, std::string_view value) {
  const auto add = [&text](std::string_view part) {
    for (const char c : part) text.push_back(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
  };
  add(name);
  text += ": ";
  add(value);
  text += "\r\n";
}

void add_two_digits(std::string& text, int value) {
  text.push_back(static_cast<char>('0' + value / 10 % 10));
  text.push_back(static_cast<char>('0' + value % 10));
}

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string http_date(std::time_t now) {
  constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                     "Thu", "Fri", "Sat"};
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::string text(kDays[static_cast<size_t>(utc.tm_wday)]);
  text += ", ";
  add_two_digits(text, utc.tm_mday);
  text += ' ';
  text += kMonths[static_cast<size_t>(utc.tm_mon)];
  text += ' ';
  text += std::to_string(utc.tm_year + 1900);
  text += ' ';
  add_two_digits(text, utc.tm_hour);
  text += ':';
  add_two_digits(text, utc.tm_min);
  text += ':';
  add_two_digits(text, utc.tm_sec);
  text += " GMT";
  return text;
}

void add_framing(std::string& text, const ResponseHead& head) {
  if (head.framing == BodyFraming::kLength) {
    add_header(text, "Content-Length", std::to_string(head.content_length));
  } else if (head.framing == BodyFraming::kChunked) {
    add_header(text, "Transfer-Encoding", "chunked");
  }
  if (!head.keep_alive) {
    add_header(text, "Connection", "close");
  } else if (head.to_http_1_0) {
    add_header(text, "Connection", "keep-alive");
  }
}

}  // namespace

std::string encode_head(const ResponseHead& head) {
  std::string text;
  text.reserve(256);
  text += "HTTP/1.1 ";
  text += std::to_string(head.status);
  text += ' ';
  text += reason_phrase(head.status);
  text += "\r\n";
  add_header(text, "Date", http_date(head.now));
  if (head.framing != BodyFraming::kNone) add_header(text, "Content-Type", head.content_type);
  add_header(text, "X-Request-Id", head.request_id);
  if (head.headers != nullptr) {
    for (const auto& [name, value] : *head.headers) add_header(text, name, value);
  }
  add_framing(text, head);
  text += "\r\n";
  return text;
}

}  // namespace encore
