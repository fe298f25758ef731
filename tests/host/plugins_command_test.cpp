// encore plugins list and describe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugin_folder.h"
#include "run_command.h"

namespace encore {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(PluginsListTest, JsonHasTheRejectedAndTheUnavailableWithTheirReasons) {
  PluginFolder folder("listed");
  folder.add_broken("acme.broken");
  folder.add_library("acme.absent", ENCORE_ABSENT_PLUGIN);
  const CommandResult result =
      run_encore({"plugins", "list", folder.configuration(), "--json", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json json = json_of(result);
  const Json broken = named(json["plugins"], "acme.broken");
  EXPECT_EQ(broken["state"], "rejected");
  EXPECT_EQ(broken["failure"]["stage"], "ELF");
  EXPECT_EQ(broken["failure"]["code"], 301);
  EXPECT_EQ(broken["failure"]["code_name"], "elf_magic");
  EXPECT_EQ(broken["failure"]["path"], folder.path() + "/acme.broken.so");
  EXPECT_EQ(broken["source"], "plugins.dirs[0]");
  EXPECT_EQ(broken["manifest"], folder.path() + "/acme.broken.plugin.yaml");
  EXPECT_EQ(broken["version"], "9.9");
  EXPECT_TRUE(broken["abi"]["effective"].is_null());
  EXPECT_EQ(broken["devices"], Json::array());
  const Json absent = named(json["plugins"], "acme.absent");
  EXPECT_EQ(absent["state"], "unavailable");
  EXPECT_EQ(absent["reason"], "there is no Acme card");
  EXPECT_TRUE(absent["failure"].is_null());
  EXPECT_EQ(absent["vendor"], "Acme");
  EXPECT_EQ(absent["real_path"], folder.path() + "/acme.absent.so");
  EXPECT_EQ(absent["abi"]["effective"], absent["abi"]["plugin"]);
  // They keep nobody else from being loaded.
  const Json cpu = named(json["plugins"], "cpu");
  EXPECT_EQ(cpu["state"], "loaded");
  EXPECT_EQ(cpu["source"], "installed");
  EXPECT_EQ(cpu["devices"][0]["id"], "cpu:0");
  EXPECT_EQ(cpu["devices"][0]["modes"],
            Json({"eager", "prefill full", "prefill breakable", "decode graph", "collectives"}));
  EXPECT_GT(cpu["devices"][0]["total_bytes"], 0);
  EXPECT_THAT((std::vector<std::string>{"generic", "avx2", "avx512", "amx"}),
              ::testing::Contains(cpu["variant"].get<std::string>()));
  EXPECT_EQ(json["searched"][0]["path"], folder.path());
  EXPECT_EQ(json["searched"][0]["manifests"], 2);
}

TEST(PluginsListTest, FieldsOfTheJsonStayAsTheyAre) {
  const CommandResult result = run_encore({"plugins", "list", "--json", "-q"});
  EXPECT_EQ(json_of(result)["schema"], 1);
  EXPECT_THAT(keys_of(result.out, ""), ElementsAre("schema", "host", "plugins", "searched"));
  EXPECT_THAT(keys_of(result.out, "/host"), ElementsAre("version", "abi"));
  EXPECT_THAT(keys_of(result.out, "/plugins/0"),
              ElementsAre("name", "vendor", "version", "build_id", "abi", "state", "reason",
                          "failure", "devices", "devices_problem", "source", "manifest", "path",
                          "real_path", "aliases", "variant", "variants", "conformance_claimed"));
  EXPECT_THAT(keys_of(result.out, "/plugins/0/abi"), ElementsAre("plugin", "host", "effective"));
  EXPECT_THAT(
      keys_of(result.out, "/plugins/0/devices/0"),
      ElementsAre("index", "id", "name", "architecture", "modes", "total_bytes", "free_bytes"));
  EXPECT_THAT(keys_of(result.out, "/plugins/0/variants/0"),
              ElementsAre("name", "library", "state", "reason", "failure"));
  EXPECT_THAT(keys_of(result.out, "/searched/0"),
              ElementsAre("source", "path", "exists", "manifests", "skipped", "left_alone"));
}

TEST(PluginsListTest, TextShowsATableAndWhyPluginsAreNotUsed) {
  PluginFolder folder("shown");
  folder.add_broken("acme.broken");
  folder.add_library("acme.absent", ENCORE_ABSENT_PLUGIN);
  const CommandResult result = run_encore({"plugins", "list", folder.configuration(), "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      ContainsRegex("name +version +vendor +state +variant +ABI plugin / host / used +devices"));
  EXPECT_THAT(result.out, ContainsRegex("acme\\.broken +9\\.9 +Acme +rejected +- "));
  EXPECT_THAT(result.out, HasSubstr("rejected     acme.broken: " + folder.path() +
                                    "/acme.broken.so: stage ELF: elf_magic (301): "));
  EXPECT_THAT(result.out, HasSubstr("unavailable  acme.absent: there is no Acme card\n"));
}

TEST(PluginsListTest, RequiredPluginThatIsRejectedFailsAndAnOptionalOneDoesNot) {
  const std::string bad = write_temporary("required.so", "this is no library");
  const CommandResult required =
      run_encore({"plugins", "list", "-q", "--set", "plugins.load=[" + bad + "]"});
  EXPECT_EQ(required.exit_code, 1);
  EXPECT_THAT(required.err, HasSubstr(bad));
  EXPECT_THAT(required.out, HasSubstr("elf_magic (301)"));
  EXPECT_THAT(required.out, HasSubstr("cpu"));
  const std::string file =
      write_temporary("optional.yaml", "plugins: {load: [{path: required.so, optional: true}]}\n");
  const CommandResult optional = run_encore({"plugins", "list", "-q", file});
  EXPECT_EQ(optional.exit_code, 0) << optional.err;
  EXPECT_THAT(optional.out, HasSubstr("elf_magic (301)"));
}

TEST(PluginsDescribeTest, TellsTheOptionsOfTheCpu) {
  const CommandResult text = run_encore({"plugins", "describe", "cpu", "-q"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("name        cpu\n"));
  EXPECT_THAT(text.out, HasSubstr("threads  auto     a whole number from 1 to 1024, or auto"));
  EXPECT_THAT(text.out, HasSubstr("encore.layer_observers"));
  EXPECT_THAT(text.out, HasSubstr("variants, best first\n"));
  const CommandResult result = run_encore({"plugins", "describe", "cpu", "--json", "-q"});
  const Json plugin = json_of(result)["plugin"];
  const Json threads = named(plugin["options"], "threads", "key");
  EXPECT_EQ(threads["type"], "int");
  EXPECT_EQ(threads["default"], "auto");
  EXPECT_EQ(threads["minimum"], 1.0);
  EXPECT_EQ(threads["maximum"], 1024.0);
  EXPECT_EQ(threads["choices"], Json({"auto"}));
  EXPECT_THAT(threads["help"].get<std::string>(), HasSubstr("Threads of the team"));
  const Json pin = named(plugin["options"], "pin", "key");
  EXPECT_EQ(pin["type"], "bool");
  EXPECT_EQ(pin["default"], "true");
  EXPECT_TRUE(pin["minimum"].is_null());
  EXPECT_THAT(plugin["extensions"], ::testing::Contains("encore.memory_plan"));
  EXPECT_EQ(plugin["variants"].back()["name"], "generic");
  int chosen = 0;
  for (const Json& variant : plugin["variants"]) chosen += variant["state"] == "chosen" ? 1 : 0;
  EXPECT_EQ(chosen, 1);
}

TEST(PluginsDescribeTest, RejectedPluginEndsWithOneAndSaysWhy) {
  PluginFolder folder("described");
  folder.add_broken("acme.broken");
  const CommandResult result =
      run_encore({"plugins", "describe", "acme.broken", folder.configuration(), "-q"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("state       rejected\n"));
  EXPECT_THAT(result.out, HasSubstr("elf_magic (301)"));
  EXPECT_THAT(result.out, Not(HasSubstr("backend.options")));
}

TEST(PluginsDescribeTest, UnknownNameEndsWithTwoAndListsWhatThereIs) {
  const CommandResult result = run_encore({"plugins", "describe", "cpo", "-q"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no plugin is named \"cpo\"; did you mean \"cpu\"? Found:"));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace encore
