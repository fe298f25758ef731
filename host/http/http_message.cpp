#include "http/http_message.h"

#include "http/ascii.h"

namespace encore {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

}  // namespace encore
