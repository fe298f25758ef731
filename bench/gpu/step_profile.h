// Sums over the events of a traced step.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "encore/runner.h"

namespace encore::bench {

// "layer 3 qkv: cublas 64x8" is one of the "qkv: cublas 64x8".
inline std::string without_layer(std::string_view name) {
  constexpr std::string_view kLayer = "layer ";
  if (!name.starts_with(kLayer)) return std::string(name);
  const size_t space = name.find(' ', kLayer.size());
  return std::string(space == std::string_view::npos ? name : name.substr(space + 1));
}

// "qkv" of "qkv: cublas 64x8"; the whole name where there is no kernel to it.
inline std::string op_of(const std::string& name) {
  const size_t colon = name.find(": ");
  return name.substr(0, colon);  // npos takes all
}

// What the events of one name took. Events overlap where a kernel begins before the one before it
// has ended, so `busy_us` may sum to more than the step; `own_us`, by which an event moved the end
// of the step forward, and the gaps sum to the step exactly.
struct NameTotal {
  std::string name;
  int count = 0;
  double busy_us = 0.0;
  double own_us = 0.0;
  double gap_us = 0.0;  // idle time before these events
};

struct Gap {
  double us = 0.0;
  std::string before, after;  // the names of the events on its sides
};

struct StepProfile {
  std::vector<NameTotal> names;  // most own time first
  std::vector<Gap> gaps;         // largest first
  double step_us = 0.0;          // from the first event's start to the last one's end
  double gap_us = 0.0;

  double own_us_of_op(const std::string& op) const {
    double sum = 0.0;
    for (const NameTotal& total : names) sum += op_of(total.name) == op ? total.own_us : 0.0;
    return sum;
  }
};

// REQUIRES: events in order of start.
inline StepProfile profile_of(const std::vector<TraceEvent>& events) {
  StepProfile profile;
  std::map<std::string, NameTotal> totals;
  std::string last;
  for (const TraceEvent& event : events) {
    const std::string name = without_layer(event.name);
    NameTotal& total = totals[name];
    const double gap = std::max(event.start_us - profile.step_us, 0.0);
    const double end = std::max(event.start_us + event.duration_us, profile.step_us);
    total.name = name;
    ++total.count;
    total.busy_us += event.duration_us;
    total.own_us += end - profile.step_us - gap;
    total.gap_us += gap;
    if (gap > 0.0) profile.gaps.push_back({gap, last, event.name});
    profile.gap_us += gap;
    profile.step_us = end;
    last = event.name;
  }
  for (auto& [name, total] : totals) profile.names.push_back(std::move(total));
  std::sort(profile.names.begin(), profile.names.end(),
            [](const NameTotal& a, const NameTotal& b) { return a.own_us > b.own_us; });
  std::sort(profile.gaps.begin(), profile.gaps.end(),
            [](const Gap& a, const Gap& b) { return a.us > b.us; });
  return profile;
}

}  // namespace encore::bench
