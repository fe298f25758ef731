// Text for messages: names that come from files are escaped and cut, so that a log line stays one
// short, valid line whatever a file says.
#pragma once

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace encore {

// `name` in single quotes, bytes outside printable ASCII as \xNN, cut after 96 bytes.
std::string printable(std::string_view name);

// "[49152, 576]"
std::string printable_shape(std::span<const int64_t> shape);

// All parts written one after another.
template <typename... Parts>
std::string concat_message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace encore
