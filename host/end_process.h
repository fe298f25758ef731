// The end of a process that cannot be taken apart.
#pragma once

#include "encore/status.h"

namespace encore {

// Whether `status`, an engine's, says that a step has not ended in time. The device may then never
// let go of what it holds, and destructors would wait for it without limit.
bool device_is_stuck(const Status& status);

// Ends the process with `code`; what was written to stdout and the log is out. Nothing is
// destroyed.
[[noreturn]] void end_process(int code);

}  // namespace encore
