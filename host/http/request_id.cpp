#include "http/request_id.h"

#include <algorithm>
#include <cstdint>

namespace encore {
namespace {

constexpr size_t kMaxIdLength = 128;

std::mt19937_64 seeded() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

}  // namespace

bool is_fit_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdLength &&
         std::all_of(id.begin(), id.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

RequestIds::RequestIds() : random_(seeded()) {}

std::string RequestIds::next() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  id.reserve(32);
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = random_();
    for (int i = 0; i < 16; ++i, bits >>= 4) id.push_back(kDigits[bits & 15]);
  }
  return id;
}

}  // namespace encore
