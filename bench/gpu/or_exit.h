// What a benchmark does with errors: it ends.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "encore/status.h"

namespace encore::bench {

[[noreturn]] inline void give_up(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::exit(1);
}

inline void check(const Status& status, const char* what) {
  if (!status.ok()) give_up(std::string(what) + ": " + status.to_string());
}

template <typename T>
T take(Result<T> result, const char* what) {
  check(result.status(), what);
  return std::move(result).value();
}

}  // namespace encore::bench
