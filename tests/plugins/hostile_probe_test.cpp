// Plugins that crash, hang, exit, throw or make noise: they do so in the child.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ostream>
#include <thread>

#include "hostile_test_util.h"

namespace encore {
namespace {

struct Misdeed {
  std::string plugin;
  std::string lie;
  LoadCode code;
  std::string words;
};

void PrintTo(const Misdeed& misdeed, std::ostream* out) { *out << misdeed.lie; }

std::string name_of_misdeed(const testing::TestParamInfo<Misdeed>& info) {
  return info.param.plugin + "_" + info.param.lie;
}

class HostileChildTest : public HostileTest, public testing::WithParamInterface<Misdeed> {};

TEST_P(HostileChildTest, IsRefusedAndTheHostLives) {
  tell(GetParam().lie);
  load(test_plugin(GetParam().plugin));
  expect_refused(GetParam().code, StatusCode::kInternal, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    Crash, HostileChildTest,
    testing::Values(
        Misdeed{"c", "crash_start", LoadCode::kProbeCrashed,
                "it crashed with SIGSEGV (Segmentation fault) while it was mapped (in a static "
                "initialiser?)"},
        Misdeed{"c", "crash_entry", LoadCode::kProbeCrashed,
                "SIGSEGV (Segmentation fault) in its "
                "entry function"},
        Misdeed{"c", "crash_probe", LoadCode::kProbeCrashed, "in its probe()"},
        Misdeed{"c", "crash_init", LoadCode::kProbeCrashed, "in its init()"},
        Misdeed{"c", "abort_init", LoadCode::kProbeCrashed, "SIGABRT (Aborted) in its init()"},
        Misdeed{"c", "crash_shutdown", LoadCode::kProbeCrashed, "in its shutdown()"},
        Misdeed{"c", "crash_end", LoadCode::kProbeCrashed, "while the process ended"}),
    name_of_misdeed);

INSTANTIATE_TEST_SUITE_P(
    Exit, HostileChildTest,
    testing::Values(Misdeed{"c", "exit_start", LoadCode::kProbeExited,
                            "it ended the process with status 0 while it was mapped"},
                    Misdeed{"c", "exit_entry", LoadCode::kProbeExited, "in its entry function"},
                    Misdeed{"c", "exit_init", LoadCode::kProbeExited, "in its init()"}),
    name_of_misdeed);

INSTANTIATE_TEST_SUITE_P(SelfTest, HostileChildTest,
                         testing::Values(Misdeed{"c", "init_fails", LoadCode::kProbeSelfTest,
                                                 "init() failed: the board does not answer"},
                                         Misdeed{
                                             "c", "selftest_fails", LoadCode::kProbeSelfTest,
                                             "self-test of device 0 failed: two and two are five"}),
                         name_of_misdeed);

// With a C++ library of its own, a plugin's exception finds no handler outside, and aborts.
std::vector<Misdeed> throwers() {
  std::vector<Misdeed> all;
  for (const char* where : {"start", "entry", "schema", "probe", "init", "shutdown"}) {
    const std::string lie = std::string("throw_") + where;
    all.push_back({"throws", lie, LoadCode::kProbeThrew, std::string("thrown in ") + where});
    all.push_back(
        {"throws_static", lie, LoadCode::kProbeCrashed, "it aborted, or an exception left it"});
  }
  all.push_back({"throws", "throw_number_start", LoadCode::kProbeThrew, "of unknown type"});
  all.push_back({"throws", "throw_number_init", LoadCode::kProbeThrew, "of unknown type"});
  all.push_back({"throws_static", "throw_number_init", LoadCode::kProbeCrashed, "SIGABRT"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Throw, HostileChildTest, testing::ValuesIn(throwers()), name_of_misdeed);

class HostileProbeTest : public HostileTest {
 protected:
  // The process id that a plugin which hangs writes.
  pid_t written_pid() {
    pid_t pid = 0;
    for (int i = 0; i < 6000 && pid == 0; ++i) {
      std::ifstream(in_folder("pid")) >> pid;
      if (pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return pid;
  }

  // Whether the process ends within a minute. What nobody has reaped counts as ended.
  static bool ends(pid_t pid) {
    for (int i = 0; i < 6000; ++i) {
      std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
      std::string number;
      std::string name;
      std::string state;
      if (!(stream >> number >> name >> state) || state == "Z" || state == "X") return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  void ask_for_pid() { ::setenv("ENCORE_TEST_PID_FILE", in_folder("pid").c_str(), 1); }

 public:
  ~HostileProbeTest() override { ::unsetenv("ENCORE_TEST_PID_FILE"); }
};

TEST_F(HostileProbeTest, HangIsEndedAtTheLimit) {
  host_.probe_timeout_ms = 1500;
  for (const char* lie : {"hang_start", "hang_init"}) {
    tell(lie);
    load(test_plugin("c"));
    expect_refused(LoadCode::kProbeTimedOut, StatusCode::kDeadlineExceeded,
                   "still busy after 1500 ms");
  }
}

TEST_F(HostileProbeTest, NoiseIsNoFault) {
  tell("noise_start");
  load(test_plugin("c"));
  expect_loaded();
  tell("noise_shutdown");
  load(test_plugin("c"));
  expect_loaded();
}

TEST_F(HostileProbeTest, LastWordsAreInTheMessage) {
  tell("throw_number_start");
  load(test_plugin("throws"));
  EXPECT_THAT(failure_.message, testing::HasSubstr("an exception left the plugin"));
  host_.probe_program = write("probe.sh", "#!/bin/sh\nprintf 'half a \\377 line'\nexit 3\n");
  std::filesystem::permissions(host_.probe_program, std::filesystem::perms(0755));
  load(test_plugin("c"));
  expect_refused(LoadCode::kProbeExited, StatusCode::kInternal,
                 "; the last it printed: half a \xEF\xBF\xBD line");
}

TEST_F(HostileProbeTest, ProcessLeftBehindIsKilled) {
  ask_for_pid();
  tell("orphan_init");
  load(test_plugin("c"));
  ::unsetenv("ENCORE_TEST_PID_FILE");
  expect_loaded();
  pid_t pid = 0;
  std::ifstream(in_folder("pid")) >> pid;
  EXPECT_TRUE(pid == 0 || ends(pid));  // 0: it was killed before it could say its number
}

TEST_F(HostileProbeTest, ChildDiesWithTheHost) {
  ask_for_pid();
  tell("hang_init");
  const pid_t host = ::fork();
  if (host == 0) {
    load(test_plugin("c"));
    ::_exit(0);
  }
  const pid_t child = written_pid();
  ASSERT_NE(child, 0);
  ::kill(host, SIGKILL);
  ::waitpid(host, nullptr, 0);
  EXPECT_TRUE(ends(child));
}

TEST_F(HostileProbeTest, UnavailableIsNoFault) {
  for (const char* lie : {"absent", "init_unavailable"}) {
    tell(lie);
    load(test_plugin("c"));
    EXPECT_TRUE(loaded_.has_value()) << status_.to_string();
  }
}

TEST_F(HostileProbeTest, OptionThatIsForcedMustWork) {
  tell("init_unavailable");
  load(test_plugin("c"), {.probe_options = {{"speed", "2"}}});
  expect_refused(LoadCode::kProbeSelfTest, StatusCode::kUnavailable, "the board is in use");
  load(test_plugin("c"), {.probe_options = {{"sped", "2"}}});
  expect_refused(LoadCode::kSchema, StatusCode::kInvalidArgument, "sped");
}

TEST_F(HostileProbeTest, MissingProgramIsNamedAsTheFault) {
  host_.probe_program = "/no/such/probe";
  load(test_plugin("c"));
  expect_refused(LoadCode::kProbeNotStarted, StatusCode::kUnavailable,
                 "cannot be run: No such file or directory");
}

TEST_F(HostileProbeTest, ProgramIsFoundFromTheBuildTree) {
  EXPECT_THAT(find_probe_program(), testing::EndsWith("/libexec/encore/encore-plugin-probe"));
}

}  // namespace
}  // namespace encore
