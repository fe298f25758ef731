#include "topology.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace encore::cpu {
namespace {

// The first whitespace-separated number of a small file, or `fallback`.
int64_t read_number(const std::string& path, int64_t fallback) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : fallback;
}

int64_t core_of(int32_t processor) {
  const std::string folder =
      "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/";
  const int64_t package = read_number(folder + "physical_package_id", 0);
  // Without sysfs each processor counts as a core of its own.
  const int64_t core = read_number(folder + "core_id", -1);
  return core < 0 ? -1 - int64_t{processor} : package * 65536 + core;
}

// "max 100000" or "150000 100000" (v2), as processors.
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0.0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0.0) return 0.0;
  return std::stod(quota) / period;
}

double quota_v1(const std::string& folder) {
  const int64_t quota = read_number(folder + "/cpu.cfs_quota_us", -1);
  const int64_t period = read_number(folder + "/cpu.cfs_period_us", 0);
  return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0.0;
}

// A cgroup's limit binds its descendants too, so the smallest on the way up counts.
template <typename Quota>
double smallest_on_the_way_up(const std::string& root, std::string path, const Quota& quota) {
  double smallest = 0.0;
  while (true) {
    const double here = quota(root + path);
    if (here > 0.0 && (smallest == 0.0 || here < smallest)) smallest = here;
    if (path.empty() || path == "/") return smallest;
    path.resize(path.find_last_of('/'));
  }
}

double read_quota() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  double smallest = 0.0;
  while (std::getline(file, line)) {
    // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    double quota = 0.0;
    if (controllers.empty()) {
      quota = smallest_on_the_way_up("/sys/fs/cgroup", path, quota_v2);
    } else if (controllers.find("cpu") == 0 || controllers.find(",cpu") != std::string::npos) {
      quota = smallest_on_the_way_up("/sys/fs/cgroup/cpu", path, quota_v1);
    }
    if (quota > 0.0 && (smallest == 0.0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

}  // namespace

Topology read_topology() {
  Topology topology;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int32_t id = 0; id < CPU_SETSIZE; ++id) {
      if (CPU_ISSET(static_cast<size_t>(id), &mask))
        topology.processors.push_back({id, core_of(id)});
    }
  }
  topology.quota = read_quota();
  return topology;
}

std::vector<int32_t> thread_processors(const Topology& topology) {
  std::vector<int32_t> chosen;
  std::set<int64_t> cores;
  for (const Topology::Processor& processor : topology.processors) {
    if (cores.insert(processor.core).second) chosen.push_back(processor.id);
  }
  if (chosen.empty()) chosen.push_back(0);
  if (topology.quota > 0.0) {
    const auto limit = static_cast<size_t>(std::max(1.0, topology.quota));
    chosen.resize(std::min(chosen.size(), limit));
  }
  return chosen;
}

}  // namespace encore::cpu
