// Rules L on others in the process: a second plugin, and the host's output and end.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "encore/sdk/abi_struct.h"
#include "load_rule_bodies.h"
#include "raw_run.h"

namespace encore::check {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShownBytes = 200;

// The plugin's file again under another path, with links to its neighbours, so that what it looks
// for beside itself is there. To the linker it is another library, and nothing may be shared.
class SecondCopy {
 public:
  explicit SecondCopy(const std::string& path) {
    std::string pattern = (fs::temp_directory_path() / "encore-plugin-check-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    std::error_code error;
    const fs::path original = fs::canonical(path, error);
    for (auto it = fs::directory_iterator(original.parent_path(), error);
         !error && it != fs::directory_iterator(); it.increment(error)) {
      std::error_code ignored;  // a neighbour that cannot be linked may not be needed
      if (it->path() != original)
        fs::create_symlink(it->path(), folder_ / it->path().filename(), ignored);
    }
    copy_ = folder_ / original.filename();
    made_ = fs::copy_file(original, copy_, error);
  }
  ~SecondCopy() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  SecondCopy(const SecondCopy&) = delete;
  SecondCopy& operator=(const SecondCopy&) = delete;

  bool made() const { return made_; }
  std::string path() const { return copy_.string(); }

 private:
  fs::path folder_;
  fs::path copy_;
  bool made_ = false;
};

// Both work, and the one left goes on when the other has ended.
Outcome work_together(RawSession& staying, RawSession& leaving) {
  Tailor tailor(Cut::kExact);
  const Result<RawRun> alone = raw_run(staying, tailor);
  if (!alone.ok()) return skip("a small model does not run: " + alone.status().to_string());
  const Result<RawRun> other = raw_run(leaving, tailor);
  if (!other.ok()) return fail("beside another plugin: " + other.status().to_string());
  if (const std::string change = run_difference(*alone, *other); !change.empty()) {
    return fail("of two plugins side by side " + change);
  }
  leaving.shutdown();
  const Result<RawRun> after = raw_run(staying, tailor);
  if (!after.ok()) {
    return fail("after the other plugin's shutdown(): " + after.status().to_string());
  }
  const std::string change = run_difference(*alone, *after);
  return change.empty() ? pass() : fail("after the other plugin's shutdown() " + change);
}

// The plugin's life from loading to shutdown, as far as it goes.
void whole_life(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return;
  if (session.table().selftest != nullptr) {
    raw_call(session.table().selftest, session.backend(), session.device());
  }
  Tailor tailor(Cut::kExact);
  static_cast<void>(raw_run(session, tailor));
}

}  // namespace

Outcome works_loaded_second(const CheckContext& context) {
  const SecondCopy copy(context.plugin_path);
  if (!copy.made()) return skip("no second copy of the plugin could be made");
  CheckContext other = context;
  other.plugin_path = copy.path();
  RawSession first(other);
  if (!first.ok()) return first.outcome();
  RawSession second(context);
  if (!second.ok()) return fail("with another plugin loaded first, " + second.outcome().message);
  return work_together(second, first);
}

Outcome works_loaded_first(const CheckContext& context) {
  const SecondCopy copy(context.plugin_path);
  if (!copy.made()) return skip("no second copy of the plugin could be made");
  CheckContext other = context;
  other.plugin_path = copy.path();
  RawSession first(context);
  if (!first.ok()) return first.outcome();
  RawSession second(other);
  if (!second.ok()) return skip("another plugin cannot be loaded: " + second.outcome().message);
  return work_together(first, second);
}

Outcome standard_output_stays_empty(const CheckContext& context) {
  const int captured = ::memfd_create("stdout", MFD_CLOEXEC);
  if (captured < 0) return skip(std::string("memfd_create: ") + std::strerror(errno));
  std::fflush(stdout);
  ::dup2(captured, STDOUT_FILENO);
  whole_life(context);
  std::fflush(stdout);
  std::string text(kMaxShownBytes, '\0');
  const ssize_t got = ::pread(captured, text.data(), text.size(), 0);
  if (got <= 0) return pass();
  text.resize(static_cast<size_t>(got));
  return fail("it wrote to standard output, which belongs to the host's replies: \"" + text +
              "\"; use the log function of encore_host_info");
}

Outcome process_ends_in_good_order(const CheckContext& context) {
  const pid_t child = ::fork();
  if (child < 0) return skip(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    whole_life(context);
    std::exit(EXIT_SUCCESS);  // with the plugin's destructors: that is what is looked at
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return fail("the process ended by SIG" + std::string(name != nullptr ? name : "?") +
                " when the host left main(); look at the plugin's static destructors");
  }
  if (WEXITSTATUS(status) != 0) {
    return fail("the process ended with code " + std::to_string(WEXITSTATUS(status)));
  }
  return pass();
}

}  // namespace encore::check
