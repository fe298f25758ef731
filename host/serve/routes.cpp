#include "serve/routes.h"

#include <array>
#include <charconv>
#include <system_error>

namespace encore {
namespace {

constexpr std::string_view kGet = "GET, HEAD";
constexpr std::string_view kPost = "POST";
constexpr std::string_view kModelPrefix = "/v1/models/";

struct Entry {
  std::string_view path;
  Route route;
};

constexpr std::array<Entry, 10> kRoutes = {{
    {"/v1/models", {Endpoint::kModels, kGet, true, true}},
    {"/v1/chat/completions", {Endpoint::kChatCompletions, kPost, true, true}},
    {"/v1/completions", {Endpoint::kCompletions, kPost, true, true}},
    {"/tokenize", {Endpoint::kTokenize, kPost, true, true}},
    {"/detokenize", {Endpoint::kDetokenize, kPost, true, true}},
    {"/health", {Endpoint::kHealth, kGet, false, false}},
    {"/ready", {Endpoint::kReady, kGet, false, false}},
    {"/metrics", {Endpoint::kMetrics, kGet, false, false}},
    {"/version", {Endpoint::kVersion, kGet, false, false}},
    {"/", {Endpoint::kPage, kGet, false, false}},
}};
constexpr Route kModel = {Endpoint::kModel, kGet, true, true};

}  // namespace

const Route* find_route(std::string_view path) {
  for (const Entry& entry : kRoutes) {
    if (entry.path == path) return &entry.route;
  }
  return path.size() > kModelPrefix.size() && path.starts_with(kModelPrefix) ? &kModel : nullptr;
}

bool allows(const Route& route, std::string_view method) {
  if (route.methods == kGet) return method == "GET" || method == "HEAD";
  return method == route.methods;
}

std::string model_in_path(std::string_view path) {
  path.remove_prefix(kModelPrefix.size());
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    unsigned char byte = 0;
    if (path[i] == '%' && i + 2 < path.size()) {
      const char* const end = path.data() + i + 3;
      const auto [rest, error] = std::from_chars(path.data() + i + 1, end, byte, 16);
      if (error == std::errc() && rest == end) {
        name += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    name += path[i];
  }
  return name;
}

}  // namespace encore
