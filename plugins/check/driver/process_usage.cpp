#include "process_usage.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace encore::check {
namespace {

int64_t count_entries(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  return error ? 0 : std::distance(begin(entries), end(entries));
}

}  // namespace

ProcessUsage process_usage() {
  ProcessUsage usage;
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  usage.resident_bytes = resident_pages * ::sysconf(_SC_PAGESIZE);
  usage.threads = count_entries("/proc/self/task");
  usage.descriptors = count_entries("/proc/self/fd");
  return usage;
}

Status check_growth(const ProcessUsage& before, const ProcessUsage& now, int64_t slack_bytes,
                    const std::string& what) {
  const auto grown = [&what](const char* name, int64_t from, int64_t to) {
    return internal_error(what + ": " + name + " grew from " + std::to_string(from) + " to " +
                          std::to_string(to));
  };
  if (now.threads > before.threads) return grown("threads", before.threads, now.threads);
  if (now.descriptors > before.descriptors) {
    return grown("open descriptors", before.descriptors, now.descriptors);
  }
  if (!kSanitized && now.resident_bytes - before.resident_bytes > slack_bytes) {
    return grown("resident bytes", before.resident_bytes, now.resident_bytes);
  }
  return {};
}

}  // namespace encore::check
