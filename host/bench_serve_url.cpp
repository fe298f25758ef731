#include "bench_serve_url.h"

#include <algorithm>
#include <string_view>

namespace encore {
namespace {

bool drop_suffix(std::string& text, std::string_view suffix) {
  if (text.size() < suffix.size()) return false;
  if (text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

bool is_port(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit) &&
         std::stoi(text) >= 1 && std::stoi(text) <= 65535;
}

}  // namespace

std::string ServerUrl::authority() const {
  std::string text = host.find(':') == std::string::npos ? host : "[" + host + "]";
  text += ':';
  text += port;
  return text;
}

std::string ServerUrl::text() const { return "http://" + authority() + path; }

Result<ServerUrl> parse_server_url(const std::string& url) {
  const Status malformed =
      invalid_argument("the URL is \"" + url + "\"; it must look like http://127.0.0.1:8000");
  constexpr std::string_view kScheme = "http://";
  if (url.rfind("https://", 0) == 0) {
    return invalid_argument("the URL is \"" + url +
                            "\"; https is not spoken: name the server behind the proxy");
  }
  if (url.rfind(kScheme, 0) != 0) return malformed;
  const size_t slash = std::min(url.find('/', kScheme.size()), url.size());
  const std::string place = url.substr(kScheme.size(), slash - kScheme.size());
  ServerUrl result;
  result.path = url.substr(slash);
  while (drop_suffix(result.path, "/")) {
  }
  drop_suffix(result.path, "/v1");
  const auto is_graphic = [](char c) { return c > ' ' && c <= '~' && c != '?' && c != '#'; };
  if (!std::all_of(url.begin(), url.end(), is_graphic)) return malformed;
  const bool bracketed = !place.empty() && place.front() == '[';
  const size_t host_end = bracketed ? place.find(']') : std::min(place.find(':'), place.size());
  if (host_end == std::string::npos) return malformed;
  result.host = place.substr(bracketed ? 1 : 0, host_end - (bracketed ? 1 : 0));
  const std::string rest = place.substr(host_end + (bracketed ? 1 : 0));
  result.port = rest.empty() ? "80" : rest.substr(1);
  const bool colon = rest.empty() || rest.front() == ':';
  if (result.host.empty() || !colon || !is_port(result.port)) return malformed;
  return result;
}

}  // namespace encore
