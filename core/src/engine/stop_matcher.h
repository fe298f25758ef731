// Finds stop strings in streamed text, and holds back what might become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace encore {

// Reads text piece by piece; how it is cut into pieces changes nothing. Of several stops the one
// whose end comes first counts, and of those that end together the longest. One thread at a time.
class StopMatcher {
 public:
  // Empty stops are ignored.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Appends to `certain` the text that can no longer be part of a stop. Returns true if a stop was
  // found: then `certain` ends just before it, and what follows it is dropped.
  // REQUIRES: no stop was found before.
  bool push(std::string_view text, std::string& certain);

  // Appends what is held back to `certain`: the text ended without completing a stop.
  void finish(std::string& certain);

 private:
  // Knuth-Morris-Pratt: after each byte, how much of the stop's beginning the text ends with.
  struct Stop {
    std::string text;
    std::vector<int32_t> fallback;  // [text.size()+1], longest proper border of each prefix
    int32_t matched = 0;
  };

  std::vector<Stop> stops_;
  std::string held_;
};

}  // namespace encore
