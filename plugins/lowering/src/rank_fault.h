// A test aid: makes one rank hang or fail at a step, in any backend and from outside the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "encore/status.h"

namespace encore::lowering {

// ENCORE_RANK_FAULT=RANK:STEP:hang or RANK:STEP:fail, read when a model is loaded. Steps count from
// 1. A rank that hangs never answers again, as if its device driver had not returned.
class RankFault {
 public:
  // Errors: kInvalidArgument if the variable is set and is not of that form.
  static Result<RankFault> from_environment() {
    RankFault fault;
    const char* text = std::getenv("ENCORE_RANK_FAULT");
    if (text == nullptr) return fault;
    char what[5] = {};
    long long step = 0;
    const bool parsed = std::sscanf(text, "%d:%lld:%4s", &fault.rank_, &step, what) == 3;
    fault.hangs_ = std::string(what) == "hang";
    if (!parsed || step < 1 || (!fault.hangs_ && std::string(what) != "fail")) {
      return invalid_argument(std::string("ENCORE_RANK_FAULT is '") + text +
                              "'; it must be RANK:STEP:hang or RANK:STEP:fail");
    }
    fault.step_ = static_cast<uint64_t>(step);
    return fault;
  }

  // Called by each rank as it submits a step.
  Status strike(int32_t rank, uint64_t step) const {
    if (step != step_ || rank != rank_) return {};
    while (hangs_) std::this_thread::sleep_for(std::chrono::hours(1));
    return internal_error("ENCORE_RANK_FAULT asked for this");
  }

 private:
  int32_t rank_ = -1;
  uint64_t step_ = 0;
  bool hangs_ = false;
};

}  // namespace encore::lowering
