#include "engine/stop_matcher.h"

#include <algorithm>

namespace encore {
namespace {

// fallback[n]: the length of the longest proper prefix of text[0, n) that is also its suffix.
std::vector<int32_t> borders(std::string_view text) {
  std::vector<int32_t> fallback(text.size() + 1, 0);
  int32_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fallback[length];
    if (text[i] == text[length]) ++length;
    fallback[i + 1] = length;
  }
  return fallback;
}

}  // namespace

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) stops_.push_back({stop, borders(stop), 0});
  }
}

bool StopMatcher::push(std::string_view text, std::string& certain) {
  if (stops_.empty()) {
    certain.append(text);
    return false;
  }
  size_t longest = 0;  // bytes at the end of held_ that may begin a stop
  for (const char byte : text) {
    held_.push_back(byte);
    longest = 0;
    size_t found = 0;
    for (Stop& stop : stops_) {
      int32_t& matched = stop.matched;
      while (matched > 0 && stop.text[matched] != byte) matched = stop.fallback[matched];
      if (stop.text[matched] == byte) ++matched;
      longest = std::max(longest, static_cast<size_t>(matched));
      if (static_cast<size_t>(matched) == stop.text.size()) {
        found = std::max(found, stop.text.size());
        matched = stop.fallback[matched];
      }
    }
    if (found > 0) {
      certain.append(held_, 0, held_.size() - found);
      held_.clear();
      return true;
    }
  }
  const size_t free = text.empty() ? 0 : held_.size() - longest;
  certain.append(held_, 0, free);
  held_.erase(0, free);
  return false;
}

void StopMatcher::finish(std::string& certain) {
  certain.append(held_);
  held_.clear();
  for (Stop& stop : stops_) stop.matched = 0;
}

}  // namespace encore
