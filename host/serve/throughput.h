// What an engine did lately, in one line for people.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace encore {

// One thread.
class ThroughputMeter {
 public:
  // `submit_runs_step`: the device has no queue, so that the time of a submit is the device's.
  explicit ThroughputMeter(bool submit_runs_step) : submit_runs_step_(submit_runs_step) {}

  // "prompt 1,234 tokens/s, generation 2,345 tokens/s, running 12, waiting 3, KV 45 %, prefix hits
  // 67 %, host 15 us a step", over the `seconds` since the last call; empty if there was no step.
  std::string line(const EngineStats& stats, double seconds);

 private:
  int64_t host_ns(const StepCosts& costs) const {
    return costs.host_ns() - (submit_runs_step_ ? costs.submit_ns : 0);
  }

  const bool submit_runs_step_;
  EngineStats last_;
};

}  // namespace encore
