#include "probe.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "child_process.h"
#include "probe_record.h"
#include "stage_error.h"
#include "verdict_cache.h"

namespace encore {
namespace {

constexpr std::string_view kProgramBelow = "libexec/encore/encore-plugin-probe";
constexpr int kMaxFoldersUp = 4;  // a test of the build tree lies that deep

// The last step that the child began, and the outcome if it got that far.
struct Report {
  ProbeStep step = ProbeStep::kStart;
  std::optional<ProbeRecord> outcome;
};

Report read_report(std::string_view bytes) {
  Report report;
  while (std::optional<ProbeRecord> record = decode_probe_record(&bytes)) {
    report.step = record->step;
    if (record->is_outcome) report.outcome = std::move(record);
  }
  return report;
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  const char* description = ::sigdescr_np(number);
  if (name == nullptr || description == nullptr) return "signal " + std::to_string(number);
  return std::string("SIG") + name + " (" + description + ")";
}

std::string with_noise(std::string message, const std::string& noise) {
  if (noise.empty()) return message;
  return message.append("; the last it printed: ").append(noise);
}

Status not_started(const std::string& why, LoadCode* code) {
  return stage_error(code, LoadCode::kProbeNotStarted,
                     unavailable("the program that tries plugins out " + why +
                                 "; it belongs in libexec/encore, beside the folder of this "
                                 "program: install Encore again"));
}

// What usually ends a process so.
std::string_view usual_cause(int signal) {
  if (signal == SIGABRT) return "it aborted, or an exception left it";
  if (signal == SIGILL) return "it was built for another processor, or is defective";
  return "it is defective, or was built for another machine";
}

// How the child ended if it ended badly.
Status judge_end(const ChildEnd& end, const Report& report, int64_t timeout_ms, LoadCode* code) {
  const std::string where(probe_step_text(report.step));
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      return not_started(std::string("cannot be run: ") + std::strerror(end.number), code);
    case ChildEnd::How::kTimedOut:
      return stage_error(
          code, LoadCode::kProbeTimedOut,
          deadline_exceeded(with_noise("it was still busy after " + std::to_string(timeout_ms) +
                                           " ms " + where +
                                           ", and was killed; ask its vendor, or load fewer "
                                           "plugins at once",
                                       end.noise)));
    case ChildEnd::How::kSignalled:
      return stage_error(
          code, LoadCode::kProbeCrashed,
          internal_error(with_noise("it crashed with " + signal_text(end.number) + " " + where +
                                        "; " + std::string(usual_cause(end.number)),
                                    end.noise)));
    case ChildEnd::How::kExited:
      if (end.number == 0 && report.outcome) return {};
      return stage_error(code, LoadCode::kProbeExited,
                         internal_error(with_noise("it ended the process with status " +
                                                       std::to_string(end.number) + " " + where +
                                                       "; a plugin must return errors and not exit",
                                                   end.noise)));
    case ChildEnd::How::kUnknown:
      if (report.outcome) return {};
      return stage_error(code, LoadCode::kProbeExited,
                         internal_error(with_noise("it ended the process " + where, end.noise)));
  }
  return internal_error("unknown end of a child process");
}

ChildCommand command_for(const std::string& program, const std::string& real_path,
                         const HostInfo& host, const PluginLoadOptions& options) {
  ChildCommand command = {.program = program,
                          .arguments = {std::to_string(::getpid()), real_path, host.version},
                          .timeout_ms = host.probe_timeout_ms};
  for (const auto& [key, value] : options.probe_options) {
    command.arguments.push_back(key);
    command.arguments.push_back(value);
  }
  return command;
}

}  // namespace

std::string find_probe_program() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  folder = folder.parent_path();
  for (int i = 0; i < kMaxFoldersUp && folder.has_relative_path(); ++i) {
    folder = folder.parent_path();
    std::filesystem::path program = folder / kProgramBelow;
    if (std::filesystem::exists(program, error)) return program.string();
  }
  return {};
}

Result<ProbeVerdict> probe_plugin(const std::string& real_path, const HostInfo& host,
                                  const PluginLoadOptions& options, LoadCode* code) {
  const std::string program =
      host.probe_program.empty() ? find_probe_program() : host.probe_program;
  if (program.empty()) return not_started("was not found", code);
  const VerdictCache cache(host.verdict_folder);
  const std::string key = verdict_key(real_path, program, host, options);
  if (cache.holds(key)) return ProbeVerdict::kRemembered;
  const ChildEnd end = run_child(command_for(program, real_path, host, options));
  const Report report = read_report(end.result);
  // What the child could put into words says more than how it ended.
  if (report.outcome && report.outcome->code != LoadCode::kNone) {
    return stage_error(code, report.outcome->code,
                       Status(report.outcome->status, report.outcome->message));
  }
  ENCORE_RETURN_IF_ERROR(judge_end(end, report, host.probe_timeout_ms, code));
  if (report.outcome->usable) cache.remember(key);
  return ProbeVerdict::kFresh;
}

}  // namespace encore
