// Runs a program that may crash, hang or misbehave, and says how it ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace encore {

// The program finds /dev/null at descriptor 0, a pipe for its noise at 1 and 2, a pipe for its
// result at 3, and no other descriptor of this process.
struct ChildCommand {
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // without the program's name
  int64_t timeout_ms = 0;
};

struct ChildEnd {
  enum class How : int32_t {
    kNotStarted = 0,
    kExited = 1,
    kSignalled = 2,
    kTimedOut = 3,  // and was killed
    kUnknown = 4,   // somebody else in this process has reaped it
  };
  How how = How::kNotStarted;
  int number = 0;      // errno, exit status or signal
  std::string result;  // at most 64 KiB
  std::string noise;   // the last 2 KiB of what it printed, made valid text
};

// Starts the program in a process group of its own with all signals as by default, waits for it,
// and kills what is left of the group. Any thread, several at once; the process may have any number
// of threads, since nothing is forked without exec.
ChildEnd run_child(const ChildCommand& command);

}  // namespace encore
