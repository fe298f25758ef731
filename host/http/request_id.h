// Ids of requests: the client's own if they are fit to be logged, else random ones.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace encore {

// 1 to 128 printable ASCII characters.
bool is_fit_request_id(std::string_view id);

// One thread's.
class RequestIds {
 public:
  RequestIds();

  // 32 hexadecimal digits.
  std::string next();

 private:
  std::mt19937_64 random_;
};

}  // namespace encore
