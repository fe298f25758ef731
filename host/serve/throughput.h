// What an engine did lately, in one line for people.
#pragma once

#include <string>

#include "engine/engine.h"

namespace encore {

// One thread.
class ThroughputMeter {
 public:
  // "prompt 1,234 tokens/s, generation 2,345 tokens/s, running 12, waiting 3, KV 45 %, prefix hits
  // 67 %, host 15 us a step", over the `seconds` since the last call; empty if there was no step.
  std::string line(const EngineStats& stats, double seconds);

 private:
  EngineStats last_;
};

}  // namespace encore
