// The command line without a model: exit codes, messages, and what is never done silently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(CommandTest, VersionAndHelpEndWithZero) {
  const CommandResult version = run_encore({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("encore 0."));
  const CommandResult help = run_encore({"run", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--prompt-file"));
}

TEST(CommandTest, UsageErrorsEndWithTwo) {
  EXPECT_EQ(run_encore({}).exit_code, 2);
  const CommandResult verb = run_encore({"rnu"});
  EXPECT_EQ(verb.exit_code, 2);
  EXPECT_THAT(verb.err, HasSubstr("unknown verb \"rnu\"; did you mean \"run\"?"));
  const CommandResult flag = run_encore({"devices", "--nonsense"});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.err, HasSubstr("--nonsense"));
  EXPECT_EQ(run_encore({"run"}).exit_code, 2);
}

TEST(CommandTest, ConfigCheckPrintsValuesAndWhereTheyCameFrom) {
  const std::string file = write_temporary("good.yaml", "kv_cache:\n  page_size: 32\n");
  const CommandResult result = run_encore({"config", "check", file, "--set", "log.level=warn"}, "",
                                          {"ENCORE_SCHEDULER__MAX_CONTEXT=77"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("kv_cache.page_size"));
  EXPECT_THAT(result.out, HasSubstr("32  (" + file + ":2)"));
  EXPECT_THAT(result.out, HasSubstr("77  (ENCORE_SCHEDULER__MAX_CONTEXT)"));
  EXPECT_THAT(result.out, HasSubstr("warn  (--set log.level)"));
  EXPECT_THAT(result.out, HasSubstr("auto  (default)"));
}

TEST(CommandTest, WrongConfigurationEndsWithTwoAndNamesKeyAndLine) {
  const std::string file = write_temporary("bad.yaml", "\nscheduler:\n  max_contxt: 9\n");
  for (const char* verb : {"check", "run", "chat", "bench", "doctor"}) {
    std::vector<std::string> arguments = {verb, file};
    if (std::string(verb) == "check") arguments.insert(arguments.begin(), "config");
    const CommandResult result = run_encore(arguments, "hello");
    EXPECT_EQ(result.exit_code, 2) << verb;
    EXPECT_THAT(result.err + result.out,
                HasSubstr(file + ":3: unknown key \"scheduler.max_contxt\"; did you mean "
                                 "\"scheduler.max_context\"?"))
        << verb;
  }
}

TEST(CommandTest, WrongFlagNamesTheFlag) {
  const std::string file = write_temporary("good.yaml", "");
  const CommandResult result = run_encore({"run", file, "--temperature", "hot"}, "hello");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--temperature: sampling.temperature is \"hot\""));
}

TEST(CommandTest, UnknownBackendIsAnErrorThatListsWhatWasFound) {
  const std::string file =
      write_temporary("cuda.yaml", "model: {path: x.gguf}\nbackend: {name: nosuch}\n");
  const CommandResult result = run_encore({"run", file, "--prompt", "hello"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr(file + ":2: "));
  EXPECT_THAT(result.err, HasSubstr("nosuch"));
  EXPECT_THAT(result.err, HasSubstr("found: 'cpu' from "));
  EXPECT_EQ(result.out, "");
}

TEST(CommandTest, PluginThatCannotBeLoadedIsAnErrorAndNothingTakesItsPlace) {
  const std::string plugin = write_temporary("encore_backend_bad.so", "this is no library");
  const std::string file = write_temporary(
      "plugin.yaml", "model: {path: x.gguf}\nplugins: {load: [encore_backend_bad.so]}\n");
  const CommandResult result = run_encore({"run", file, "--prompt", "hello"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(plugin));
  EXPECT_EQ(result.out, "");
}

TEST(CommandTest, MissingModelNamesKeyAndPlace) {
  const std::string file = write_temporary("model.yaml", "model:\n  path: nowhere.gguf\n");
  const CommandResult result = run_encore({"run", file, "--prompt", "hello"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr(file + ":2: model.path is "));
  EXPECT_THAT(result.err, HasSubstr("nowhere.gguf, which does not exist"));
}

TEST(CommandTest, MalformedModelEndsWithOne) {
  const std::string model = write_temporary("broken.gguf", "GGUF and then nothing");
  const std::string file = write_temporary("empty.yaml", "");
  const CommandResult result = run_encore({"run", file, "--model", model, "--prompt", "hello"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("broken.gguf"));
}

TEST(CommandTest, WrongBackendOptionNamesItsPlace) {
  const std::string file = write_temporary("option.yaml", "backend:\n  options: {thraeds: 2}\n");
  const CommandResult result = run_encore({"run", file, "--model", file, "--prompt", "hello"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr(file + ":2: backend.options: "));
  EXPECT_THAT(result.err, HasSubstr("threads"));
}

TEST(CommandTest, PluginsAndDevicesListTheCpu) {
  const CommandResult plugins = run_encore({"plugins", "list"});
  EXPECT_EQ(plugins.exit_code, 0) << plugins.err;
  EXPECT_THAT(plugins.out, HasSubstr("encore_backend_cpu_"));
  const CommandResult devices = run_encore({"devices"});
  EXPECT_EQ(devices.exit_code, 0) << devices.err;
  EXPECT_THAT(devices.out, HasSubstr("cpu:0"));
  EXPECT_THAT(devices.out, HasSubstr("threads"));
}

TEST(CommandTest, NoTerminalCodesWithoutATerminal) {
  const CommandResult result = run_encore({"plugins", "list"});
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace encore
