#include "serve/reply_id.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <random>

namespace encore {

// A random part, so that two servers or two runs differ, and a counter, so that two replies do.
std::string make_reply_id(bool is_chat) {
  static const uint64_t run = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  static std::atomic<uint32_t> counter = 0;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s-%016llx%08x", is_chat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(run), counter.fetch_add(1) + 1);
  return text.data();
}

}  // namespace encore
