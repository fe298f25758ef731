// What the environment says about the machine that the stand-in plays.
#pragma once

#include <cstdint>
#include <string>

namespace encore::standin {

struct Settings {
  int num_devices = 1;
  std::string architecture = "gfx90a";
  uint64_t memory_bytes = uint64_t{256} << 20;  // of each device
  uint64_t others_bytes = 0;                    // of those, what another process holds
  int processors = 4;
  std::string kernels;   // path of the library; empty: beside this one
  std::string failures;  // as in ENCORE_STANDIN_FAIL
  std::string report;    // path; empty: stderr
};

// Read once.
const Settings& settings();

}  // namespace encore::standin
