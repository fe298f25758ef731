#include "process_info.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace encore {

int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    int64_t kilobytes = -1;
    std::istringstream(line.substr(6)) >> kilobytes;
    return kilobytes < 0 ? -1 : kilobytes * 1024;
  }
  return -1;
}

int64_t process_age_us() {
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  // The name in parentheses may hold spaces; field 22, the start time, is counted from its end.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  int64_t start_ticks = -1;
  fields >> start_ticks;
  timespec now{};
  const int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
  if (start_ticks < 0 || ticks_per_s <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;
  const int64_t now_us = static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
  return now_us - start_ticks * 1'000'000 / ticks_per_s;
}

std::string binary_folder() {
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : binary.parent_path().string();
}

}  // namespace encore
