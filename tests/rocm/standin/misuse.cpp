#include "misuse.h"

#include <atomic>
#include <cstdio>

namespace encore::standin {
namespace {

std::atomic<int64_t> count{0};

}  // namespace

void note_misuse(const std::string& what) {
  ++count;
  std::fprintf(stderr, "stand-in: misuse: %s\n", what.c_str());
}

int64_t misuses() { return count.load(); }

}  // namespace encore::standin
