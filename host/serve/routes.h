// Which path is what.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace encore {

enum class Endpoint : int32_t {
  kModels,
  kModel,
  kChatCompletions,
  kCompletions,
  kTokenize,
  kDetokenize,
  kHealth,
  kReady,
  kMetrics,
  kVersion,
  kPage,
};

struct Route {
  Endpoint endpoint = Endpoint::kPage;
  std::string_view methods;  // "GET, HEAD": what Allow says
  bool needs_key = false;
  bool needs_model = false;  // 503 while there is none to serve
};

// The route of a path, whatever the method; null if there is none.
const Route* find_route(std::string_view path);

// Whether `route` has that method.
bool allows(const Route& route, std::string_view method);

// What /v1/models/NAME asks for, percent signs decoded.
std::string model_in_path(std::string_view path);

}  // namespace encore
