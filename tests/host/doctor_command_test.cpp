// encore doctor: what it looks at, and what its exit code says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugin_folder.h"
#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json checks_of(const Json& report, const std::string& section) {
  return named(report["sections"], section, "id")["checks"];
}

CommandResult doctor(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"doctor", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_encore(arguments);
}

TEST(DoctorTest, HealthyMachineEndsWithZeroAndEveryModeOfTheCpuAgrees) {
  const CommandResult result = doctor({});
  const Json report = json_of(result);
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["health"], "healthy");
  EXPECT_EQ(report["exit_code"], 0);
  std::vector<std::string> ids;
  for (const Json& section : report["sections"]) ids.push_back(section["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"configuration", "directories", "plugins", "libraries",
                                           "machine", "isa", "devices", "backend", "modes",
                                           "policy", "model"}));
  for (const char* mode :
       {"known answers", "eager", "prefill full", "prefill breakable", "decode graph"}) {
    EXPECT_EQ(named(checks_of(report, "modes"), mode)["verdict"], "ok") << mode;
  }
  const Json cpu = named(checks_of(report, "plugins"), "cpu");
  for (const char* stage : {"manifest", "path", "permissions", "ELF", "dependencies", "probe",
                            "load", "negotiation", "options", "registration"}) {
    EXPECT_EQ(cpu["stages"][stage], "passed") << stage;
  }
  int chosen = 0;
  for (const Json& level : checks_of(report, "isa")) chosen += level["chosen"] == "yes" ? 1 : 0;
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(named(checks_of(report, "isa"), "generic")["cpu"], "yes");
  EXPECT_EQ(named(checks_of(report, "devices"), "cpu 0")["id"], "cpu:0");
  EXPECT_EQ(named(checks_of(report, "machine"), "kernel")["verdict"], "ok");
  EXPECT_EQ(named(checks_of(report, "model"), "model")["verdict"], "skip");
}

TEST(DoctorTest, RanksAreTriedWhereTheConfigurationAsksForThem) {
  const CommandResult result = doctor({"--set", "parallel.tensor=2"});
  const Json ranks = named(checks_of(json_of(result), "modes"), "collectives");
  EXPECT_EQ(ranks["verdict"], "ok") << ranks.dump();
}

TEST(DoctorTest, PluginThatNobodyAskedForDegradesIfItIsRejected) {
  PluginFolder folder("degraded");
  folder.add_broken("acme.broken");
  const CommandResult result = doctor({folder.configuration()});
  EXPECT_EQ(result.exit_code, 1);
  const Json report = json_of(result);
  EXPECT_EQ(report["health"], "degraded");
  const Json broken = named(checks_of(report, "plugins"), "acme.broken");
  EXPECT_EQ(broken["verdict"], "warn");
  EXPECT_THAT(broken["detail"].get<std::string>(), HasSubstr("rejected at stage ELF: "));
  EXPECT_EQ(broken["stages"]["permissions"], "passed");
  EXPECT_EQ(broken["stages"]["ELF"], "failed");
  EXPECT_EQ(broken["stages"]["dependencies"], "not reached");
  EXPECT_EQ(broken["next_step"], "fetch or build the plugin again, for this machine's processor");
  const CommandResult text = run_encore({"doctor", folder.configuration()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("  warn  acme.broken  rejected at stage ELF: "));
  EXPECT_THAT(text.out, HasSubstr("next: fetch or build the plugin again"));
  EXPECT_THAT(text.out, HasSubstr("\ndegraded: 0 failed, 1 warned, "));
}

TEST(DoctorTest, UnavailableBackendIsUnusableOnlyIfItIsTheConfiguredOne) {
  PluginFolder folder("unusable");
  folder.add_library("acme.absent", ENCORE_ABSENT_PLUGIN);
  const CommandResult other = doctor({folder.configuration()});
  EXPECT_EQ(other.exit_code, 0) << other.out;
  EXPECT_EQ(named(checks_of(json_of(other), "plugins"), "acme.absent")["verdict"], "skip");
  const std::string file = folder.configuration("backend: {name: acme.absent}\n");
  const CommandResult configured = doctor({file});
  EXPECT_EQ(configured.exit_code, 2);
  const Json report = json_of(configured);
  EXPECT_EQ(report["health"], "unusable");
  const Json backend = named(checks_of(report, "backend"), "acme.absent");
  EXPECT_EQ(backend["verdict"], "fail");
  EXPECT_THAT(
      backend["detail"].get<std::string>(),
      HasSubstr(file + ":2: backend \"acme.absent\" is unavailable: there is no Acme card"));
  EXPECT_EQ(named(checks_of(report, "modes"), "all")["verdict"], "skip");
  for (const char* verb : {"run", "bench", "chat", "devices"}) {
    const CommandResult result = run_encore({verb, file, "--model", file}, "hello");
    EXPECT_EQ(result.exit_code, 2) << verb;
    EXPECT_THAT(result.err, HasSubstr("is unavailable: there is no Acme card")) << verb;
  }
}

// Where the CUDA plugin is built and there is no GPU, its own words are the reason.
TEST(DoctorTest, CudaWithoutAGpuIsUnusableAndNeverTheCpu) {
  const Json list = json_of(run_encore({"plugins", "list", "--json", "-q"}));
  const Json cuda = named(list["plugins"], "cuda");
  if (cuda.is_null() || cuda["state"] != "unavailable") GTEST_SKIP() << "not built, or has a GPU";
  const std::string reason = cuda["reason"];
  EXPECT_NE(reason, "");
  const std::string file = write_temporary("cuda.yaml", "backend: {name: cuda}\n");
  const CommandResult report = run_encore({"doctor", file});
  EXPECT_EQ(report.exit_code, 2);
  EXPECT_THAT(report.out, HasSubstr("FAIL  cuda"));
  EXPECT_THAT(report.out, HasSubstr(reason));
  const std::string message =
      std::string(file).append(":1: backend \"cuda\" is unavailable: ").append(reason);
  for (const char* verb : {"run", "bench", "devices"}) {
    const CommandResult result = run_encore({verb, file, "--model", file}, "hello");
    EXPECT_EQ(result.exit_code, 2) << verb;
    EXPECT_THAT(result.err, HasSubstr(message)) << verb;
  }
}

TEST(DoctorTest, RequiredPluginThatIsRejectedIsUnusable) {
  const std::string bad = write_temporary("doctor_required.so", "this is no library");
  const CommandResult result = doctor({"--set", "plugins.load=[" + bad + "]"});
  EXPECT_EQ(result.exit_code, 2);
  const Json report = json_of(result);
  EXPECT_EQ(named(checks_of(report, "plugins"), bad)["verdict"], "fail");
  EXPECT_EQ(named(checks_of(report, "plugins"), bad)["stages"]["manifest"], "skipped");
}

TEST(DoctorTest, MissingLibrariesAreNamed) {
  const std::string file = write_temporary(
      "needy.yaml", "plugins: {load: [{path: " ENCORE_NEEDY_PLUGIN ", optional: true}]}\n");
  const CommandResult result = doctor({file});
  EXPECT_EQ(result.exit_code, 1);
  const Json libraries = named(checks_of(json_of(result), "libraries"), ENCORE_NEEDY_PLUGIN);
  EXPECT_EQ(libraries["verdict"], "warn");
  EXPECT_THAT(libraries["detail"].get<std::string>(), HasSubstr("libencore_test_first.so"));
}

TEST(DoctorTest, ModelThatIsNotThereIsUnusableWithANextStep) {
  const std::string file = write_temporary("model.yaml", "model:\n  path: nowhere.gguf\n");
  const CommandResult result = run_encore({"doctor", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, HasSubstr("  FAIL  model"));
  EXPECT_THAT(result.out, HasSubstr("next: check model.path (" + file + ":2)"));
}

TEST(DoctorTest, FolderThatDoesNotExistIsAWarning) {
  const CommandResult result = doctor({"--set", "plugins.dirs=[/no/such/folder]"});
  EXPECT_EQ(result.exit_code, 1);
  const Json folder = named(checks_of(json_of(result), "directories"), "plugins.dirs[0]");
  EXPECT_EQ(folder["verdict"], "warn");
  EXPECT_THAT(folder["detail"].get<std::string>(), HasSubstr("/no/such/folder: "));
}

TEST(DoctorTest, PolicyTellsWhereGraphsAreRequired) {
  const Json eager = json_of(doctor({}));
  EXPECT_THAT(named(checks_of(eager, "policy"), "no graph")["detail"].get<std::string>(),
              HasSubstr("runs eagerly, with a counter and a log line"));
  const CommandResult strict =
      doctor({"--set", "capture.require_graph=true", "--set", "capture.decode=false"});
  EXPECT_EQ(strict.exit_code, 2);
  const Json report = json_of(strict);
  EXPECT_EQ(named(checks_of(report, "policy"), "decode steps")["verdict"], "fail");
  EXPECT_EQ(named(checks_of(report, "policy"), "prefill steps")["verdict"], "ok");
}

TEST(DoctorTest, WrongConfigurationIsUnusableInJsonToo) {
  const std::string file = write_temporary("wrong.yaml", "schedular: {}\n");
  const CommandResult result = doctor({file});
  EXPECT_EQ(result.exit_code, 2);
  const Json report = json_of(result);
  EXPECT_EQ(report["exit_code"], 2);
  EXPECT_THAT(checks_of(report, "configuration")[0]["detail"].get<std::string>(),
              HasSubstr("unknown section \"schedular\""));
}

TEST(DoctorTest, HelpTellsTheExitCodes) {
  EXPECT_THAT(run_encore({"doctor", "--help"}).out,
              HasSubstr("0 healthy; 1 degraded: something that the configured run does not need"));
}

}  // namespace
}  // namespace encore
