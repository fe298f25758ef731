// Defects of a plugin that takes the host's process for its own.
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include <cfenv>
#include <csignal>

#include "defect_families.h"

namespace encore::defects {
namespace {

class SignalTaken final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    std::signal(SIGUSR2, [](int) {});
    return Defect::init(backend, options);
  }
};

class RoundsUpward final : public Defect {
 public:
  void shutdown(Backend& backend) override {
    Defect::shutdown(backend);
    std::fesetround(FE_UPWARD);  // in the caller's thread, when no step can show it
  }
};

class CallerPinned final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    cpu_set_t all;
    ::sched_getaffinity(0, sizeof(all), &all);
    cpu_set_t first;
    CPU_ZERO(&first);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &first);
    }
    ::sched_setaffinity(0, sizeof(first), &first);
    const sched_param parameters = {};
    ::sched_setscheduler(0, SCHED_BATCH, &parameters);  // shows with one processor, too
    return Defect::init(backend, options);
  }
};

class UmaskCleared final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    ::umask(0);
    return Defect::init(backend, options);
  }
};

}  // namespace

std::span<const DefectEntry> process_defects() {
  static const DefectEntry entries[] = {
      defect<SignalTaken>("signal_taken"),
      defect<RoundsUpward>("rounds_upward"),
      defect<CallerPinned>("caller_pinned"),
      defect<UmaskCleared>("umask_cleared"),
  };
  return entries;
}

}  // namespace encore::defects
