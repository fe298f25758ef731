#include "faults.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "settings.h"

namespace encore::standin {
namespace {

struct Plan {
  std::map<std::pair<std::string, int64_t>, int> failures;  // name and number to code
  std::map<std::string, int64_t, std::less<>> calls;
};

template <typename T>
bool parse(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool add_failure(std::string_view entry, Plan* plan) {
  const size_t first = entry.find(':');
  const size_t last = entry.rfind(':');
  if (first == 0 || first == last || first == std::string_view::npos) return false;
  int64_t number = 0;
  int code = 0;
  if (!parse(entry.substr(first + 1, last - first - 1), &number)) return false;
  if (!parse(entry.substr(last + 1), &code)) return false;
  plan->failures[{std::string(entry.substr(0, first)), number}] = code;
  return true;
}

Plan read_plan(std::string_view failures) {
  Plan plan;
  while (!failures.empty()) {
    const size_t comma = std::min(failures.find(','), failures.size());
    if (!add_failure(failures.substr(0, comma), &plan)) {
      std::fprintf(stderr, "stand-in: ENCORE_STANDIN_FAIL: %.*s is not call:nth:code\n",
                   static_cast<int>(comma), failures.data());
      std::abort();
    }
    failures.remove_prefix(std::min(comma + 1, failures.size()));
  }
  return plan;
}

Plan& plan() {
  static Plan& plan = *new Plan(read_plan(settings().failures));
  return plan;
}

}  // namespace

int next_failure(std::string_view name) {
  auto calls = plan().calls.find(name);
  if (calls == plan().calls.end()) calls = plan().calls.emplace(name, 0).first;
  const auto failure = plan().failures.find({calls->first, ++calls->second});
  return failure == plan().failures.end() ? 0 : failure->second;
}

void plan_failures(std::string_view failures) { plan() = read_plan(failures); }

int64_t calls_of(std::string_view name) {
  const auto calls = plan().calls.find(name);
  return calls == plan().calls.end() ? 0 : calls->second;
}

std::string all_calls() {
  std::string text;
  for (const auto& [name, count] : plan().calls) {
    text += name + " " + std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace encore::standin
