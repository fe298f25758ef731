// How many threads to run, and on which processors.
#pragma once

#include <cstdint>
#include <vector>

namespace encore::cpu {

// What the machine allows this process. Filled by read_topology(), or by a test.
struct Topology {
  // Logical processors of the affinity mask, ascending, each with an id of its physical core.
  struct Processor {
    int32_t id = 0;
    int64_t core = 0;
  };
  std::vector<Processor> processors;
  double quota = 0.0;  // processors' worth of time the cgroup grants; 0: no limit
};

// Reads the affinity mask, sysfs, and the cgroup (v2 or v1) of this process.
Topology read_topology();

// One processor for each thread worth running: one a physical core (siblings share the units that
// matter here), no more than the quota rounded down, at least one.
std::vector<int32_t> thread_processors(const Topology& topology);

}  // namespace encore::cpu
