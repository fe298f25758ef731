#include "misuse.h"

#include <atomic>
#include <cstdio>

#include "settings.h"

namespace encore::standin {
namespace {

std::atomic<int64_t> count{0};

}  // namespace

void note_misuse(const std::string& what) {
  ++count;
  const std::string line = "stand-in: misuse: " + what + "\n";
  std::fputs(line.c_str(), stderr);
  append_to_report(line);
}

void append_to_report(const std::string& line) {
  if (settings().report.empty()) return;
  std::FILE* file = std::fopen(settings().report.c_str(), "a");
  if (file == nullptr) return;
  std::fputs(line.c_str(), file);
  std::fclose(file);
}

int64_t misuses() { return count.load(); }

}  // namespace encore::standin
