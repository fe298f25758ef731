// What the probe program tells the loader over its pipe: a record as it begins each step, and one
// with the outcome. Both come from one build, so the layout is this machine's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// In their order.
enum class ProbeStep : int32_t {
  kStart = 0,
  kOpen = 1,
  kEntry = 2,
  kProbe = 3,
  kInit = 4,
  kSelfTest = 5,
  kShutdown = 6,
  kEnd = 7,
};

// What the plugin was doing, to come after "crashed ".
std::string_view probe_step_text(ProbeStep step);

struct ProbeRecord {
  ProbeStep step = ProbeStep::kStart;
  bool is_outcome = false;
  // Of an outcome:
  LoadCode code = LoadCode::kNone;      // kNone: nothing is wrong with the plugin
  StatusCode status = StatusCode::kOk;  // kOk if nothing is wrong
  bool usable = false;                  // this machine has what the plugin needs
  std::string message = {};             // what is wrong; cut at 16 KiB
};

std::string encode_probe_record(const ProbeRecord& record);

// Takes the next record off `*bytes`. Nothing if the rest is not a whole and believable record: the
// plugin ran in the process that wrote it.
std::optional<ProbeRecord> decode_probe_record(std::string_view* bytes);

}  // namespace encore
