// The page at /, part of the program: its source is page/index.html.
#pragma once

#include <string_view>

namespace encore {

// HTML in UTF-8, whole: style, script and icon are inside. It asks for nothing but this server's
// own API and /metrics.
std::string_view page_html();

}  // namespace encore
