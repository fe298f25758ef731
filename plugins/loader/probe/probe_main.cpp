// encore-plugin-probe: tries out one plugin and reports over descriptor 3. Started by the loader;
// see plugins/loader/src/probe.h.
//
//   encore-plugin-probe PARENT-PID PLUGIN HOST-VERSION [OPTION VALUE]...
//
// Loads the plugin, asks it whether it can be used here, and if so initialises it, runs its
// self-test and ends it. Whatever the plugin does to the process, the loader sees it.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend_proxy.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "in_process.h"
#include "plugin_log.h"
#include "probe_record.h"

#if defined(__SANITIZE_ADDRESS__)
#define ENCORE_PROBE_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENCORE_PROBE_ASAN
#endif
#endif
#ifdef ENCORE_PROBE_ASAN
// A plugin that exits is reported as such, and not for what it had yet to free.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace encore {
namespace {

constexpr int kUsageStatus = 64;

using GivenOptions = std::vector<std::pair<std::string, std::string>>;

// Writes records to the loader.
class Reporter {
 public:
  // The descriptor moves out of the way of programs that the plugin may start.
  Reporter() : descriptor_(::fcntl(3, F_DUPFD_CLOEXEC, 100)) { ::close(3); }

  void begin(ProbeStep step) {
    step_ = step;
    send({.step = step});
  }

  void pass(bool usable) { send({.step = step_, .is_outcome = true, .usable = usable}); }

  // Ends the process, without giving the plugin another chance to run.
  [[noreturn]] void fail(LoadCode code, const Status& status) {
    send({.step = step_,
          .is_outcome = true,
          .code = code,
          .status = status.code(),
          .usable = false,
          .message = status.message()});
    ::_exit(0);
  }

  ProbeStep step() const { return step_; }

 private:
  void send(const ProbeRecord& record) const {
    const std::string bytes = encode_probe_record(record);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t wrote = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (wrote <= 0) ::_exit(kUsageStatus);
      done += static_cast<size_t>(wrote);
    }
  }

  int descriptor_;
  ProbeStep step_ = ProbeStep::kStart;
};

// Dies with the loader, leaves no core file, and has no handlers that could hide a crash.
bool settle(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return false;
  const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &none);
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
    ::signal(number, SIG_DFL);
  }
  return true;
}

void log_line(sdk::LogLevel /*level*/, std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

// Whether an error of init() with default options only says that this machine, or this user's
// configuration, lacks something: the host will meet it with the real options.
bool is_plugins_fault(const Status& status, bool forced) {
  if (status.code() == StatusCode::kUnavailable) return forced;
  return forced || status.code() != StatusCode::kInvalidArgument;
}

// True if the plugin can be used here and passed.
bool run_backend(BackendProxy& backend, const GivenOptions& given, Reporter& reporter) {
  reporter.begin(ProbeStep::kProbe);
  if (!backend.probe().usable) return false;
  const Result<OptionValues> options = check_options(backend.option_schema(), given);
  if (!options.ok()) reporter.fail(LoadCode::kSchema, options.status());
  reporter.begin(ProbeStep::kInit);
  const Status initialised = backend.init(*options);
  if (!initialised.ok()) {
    if (!is_plugins_fault(initialised, !given.empty())) return false;
    reporter.fail(LoadCode::kProbeSelfTest,
                  Status(initialised.code(), "init() failed: " + initialised.message()));
  }
  reporter.begin(ProbeStep::kSelfTest);
  if (backend.device_count() > 0) {
    const Status tested = backend.selftest(0);
    if (!tested.ok() && tested.code() != StatusCode::kUnimplemented) {
      reporter.fail(LoadCode::kProbeSelfTest,
                    Status(tested.code(), "self-test of device 0 failed: " + tested.message()));
    }
  }
  reporter.begin(ProbeStep::kShutdown);
  backend.shutdown();
  return true;
}

void run(const std::string& plugin, const std::string& version, const GivenOptions& given,
         Reporter& reporter) {
  LoadCode code = LoadCode::kNone;
  reporter.begin(ProbeStep::kOpen);
  const Result<PluginEntry> entry = open_plugin(plugin, &code);
  if (!entry.ok()) reporter.fail(code, entry.status());
  reporter.begin(ProbeStep::kEntry);
  auto context =
      enter_plugin(*entry, persistent_host_info({.version = version, .log = log_line}), &code);
  if (!context.ok()) reporter.fail(code, context.status());
  BackendProxy backend(std::move(context).value());
  const bool usable = run_backend(backend, given, reporter);
  reporter.begin(ProbeStep::kEnd);
  reporter.pass(usable);
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
    return "no exception, but std::terminate() was called";
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "of unknown type";
  }
}

Reporter* terminating_reporter = nullptr;

[[noreturn]] void report_thrown(Reporter& reporter) {
  reporter.fail(LoadCode::kProbeThrew,
                internal_error("an exception left the plugin " +
                               std::string(probe_step_text(reporter.step())) + ": " +
                               text_of(std::current_exception()) +
                               "; nothing may be thrown across the boundary"));
}

// For what cannot be caught: thrown in a static initialiser, in a thread, through noexcept.
[[noreturn]] void report_terminate() { report_thrown(*terminating_reporter); }

}  // namespace
}  // namespace encore

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  if (argc < 4 || argc % 2 != 0 || ::fcntl(3, F_GETFD) < 0) {
    std::fputs("encore-plugin-probe is started by Encore's plugin loader, not by hand\n", stderr);
    return encore::kUsageStatus;
  }
  encore::GivenOptions given;
  for (size_t i = 4; i + 1 < arguments.size(); i += 2) {
    given.emplace_back(arguments[i], arguments[i + 1]);
  }
  if (!encore::settle(static_cast<pid_t>(std::strtol(arguments[1], nullptr, 10)))) return 1;
  encore::Reporter reporter;
  encore::terminating_reporter = &reporter;
  std::set_terminate(encore::report_terminate);
  try {
    encore::run(arguments[2], arguments[3], given, reporter);
  } catch (...) {
    encore::report_thrown(reporter);
  }
  return 0;  // through exit(), so that a plugin that crashes there is found out as well
}
