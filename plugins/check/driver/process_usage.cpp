#include "process_usage.h"

#include "process_probe.h"

namespace encore::check {

ProcessUsage process_usage() { return {resident_bytes(), count_threads(), count_descriptors()}; }

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
