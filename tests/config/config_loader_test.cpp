// What a configuration file, the environment and flags may say, and how mistakes are reported.
#include "config/config_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace encore {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoadedConfig read(const std::string& text) {
  LoadedConfig loaded;
  const Status status = apply_yaml(text, "conf/a.yaml", loaded);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return loaded;
}

std::string error_of(const std::string& text) {
  LoadedConfig loaded;
  const Status status = apply_yaml(text, "conf/a.yaml", loaded);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

// The error of one flag.
std::string error_of_setting(const std::string& key, const std::string& value) {
  ConfigSources sources;
  sources.settings = {{"--set", key, value}};
  const Result<LoadedConfig> loaded = load_config(sources);
  EXPECT_FALSE(loaded.ok());
  return loaded.ok() ? "" : loaded.status().message();
}

TEST(ConfigLoaderTest, EveryTypeOfValueIsRead) {
  const LoadedConfig loaded = read(R"(
model: {path: ../models/m.gguf}
backend: {name: cpu, device: 1, options: {threads: auto, pin: true}}
plugins:
  load: [a.so, {path: /abs/b.so, optional: true}, {path: c.so, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]
  dirs: [more]
  probe_timeout_s: 5
kv_cache: {page_size: 32, dtype: bf16, max_tokens: 8192}
scheduler: {max_running_requests: 8, max_tokens_per_step: 256, max_context: 2048}
capture:
  prefill: breakable
  decode: false
  prefill_buckets: [16, 64]
sampling: {temperature: 0.5, seed: 7, stop: ["\n\n", END]}
log: {level: debug}
)");
  const Config& config = loaded.config;
  EXPECT_EQ(config.model.path, "models/m.gguf");
  EXPECT_EQ(config.backend.device, 1);
  EXPECT_THAT(config.backend.options,
              ElementsAre(std::pair<std::string, std::string>("threads", "auto"),
                          std::pair<std::string, std::string>("pin", "true")));
  ASSERT_EQ(config.plugins.load.size(), 3U);
  EXPECT_EQ(config.plugins.load[0].path, "conf/a.so");
  EXPECT_FALSE(config.plugins.load[0].optional);
  EXPECT_EQ(config.plugins.load[1].path, "/abs/b.so");
  EXPECT_TRUE(config.plugins.load[1].optional);
  EXPECT_EQ(config.plugins.load[1].sha256, "");
  EXPECT_EQ(config.plugins.load[2].path, "conf/c.so");
  EXPECT_EQ(config.plugins.load[2].sha256,
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
  EXPECT_THAT(config.plugins.dirs, ElementsAre("conf/more"));
  EXPECT_EQ(config.plugins.probe_timeout_s, 5);
  EXPECT_EQ(config.kv_cache.page_size, 32);
  EXPECT_EQ(config.kv_cache.dtype, DType::kBF16);
  EXPECT_EQ(config.kv_cache.max_tokens, 8192);
  EXPECT_EQ(config.scheduler.max_running_requests, 8);
  EXPECT_EQ(config.capture.prefill, PrefillMode::kBreakable);
  EXPECT_FALSE(config.capture.decode);
  EXPECT_THAT(config.capture.prefill_buckets, ElementsAre(16, 64));
  EXPECT_FLOAT_EQ(config.sampling.temperature, 0.5F);
  EXPECT_EQ(config.sampling.seed, 7);
  EXPECT_THAT(config.sampling.stop, ElementsAre("\n\n", "END"));
  EXPECT_EQ(config.log.level, "debug");
}

TEST(ConfigLoaderTest, EmptyFileAndEmptySectionKeepTheDefaults) {
  EXPECT_EQ(read("").config.kv_cache.page_size, 16);
  EXPECT_EQ(read("# only a comment\n").config.backend.name, "cpu");
  EXPECT_EQ(read("scheduler:\n").config.scheduler.max_running_requests, 4);
}

TEST(ConfigLoaderTest, UnknownKeyNamesFileLineAndNearestKey) {
  EXPECT_EQ(error_of("scheduler:\n  max_running_requests: 2\n  max_contxt: 5\n"),
            "conf/a.yaml:3: unknown key \"scheduler.max_contxt\"; did you mean "
            "\"scheduler.max_context\"?");
}

TEST(ConfigLoaderTest, UnknownSectionNamesTheNearest) {
  EXPECT_EQ(error_of("shceduler: {max_context: 5}\n"),
            "conf/a.yaml:1: unknown section \"shceduler\"; did you mean \"scheduler\"?");
}

TEST(ConfigLoaderTest, KeyOfAnotherSectionIsSuggested) {
  EXPECT_THAT(error_of("kv_cache: {max_running_requests: 5}\n"),
              HasSubstr("did you mean \"scheduler.max_running_requests\"?"));
}

TEST(ConfigLoaderTest, KeyLikeNoOtherListsTheSection) {
  EXPECT_EQ(
      error_of("log: {zzzzzzzzzzzzzz: 5}\n"),
      "conf/a.yaml:1: unknown key \"log.zzzzzzzzzzzzzz\"; keys of log: log.level, log.format");
}

TEST(ConfigLoaderTest, WrongTypeNamesValueAndLimit) {
  EXPECT_EQ(error_of("\nkv_cache:\n  page_size: many\n"),
            "conf/a.yaml:3: kv_cache.page_size is \"many\"; it must be a whole number from 1 to "
            "1024");
  EXPECT_THAT(error_of("capture: {decode: yes}"),
              HasSubstr("capture.decode is \"yes\"; it must be true or false"));
  EXPECT_THAT(error_of("kv_cache: {page_size: \"16\"}"), HasSubstr("is the text \"16\""));
  EXPECT_THAT(error_of("kv_cache: {page_size: [16]}"), HasSubstr("kv_cache.page_size is a list"));
  EXPECT_THAT(error_of("kv_cache: {page_size: }"), HasSubstr("kv_cache.page_size is empty"));
  EXPECT_THAT(error_of("model: {path: {a: b}}"),
              HasSubstr("model.path is a map; it must be a path"));
  EXPECT_THAT(error_of("scheduler: {max_context: 1.5}"), HasSubstr("is \"1.5\""));
  EXPECT_THAT(error_of("sampling: {temperature: .nan}"), HasSubstr("is \".nan\""));
  EXPECT_THAT(error_of("sampling: {temperature: nan}"), HasSubstr("is \"nan\""));
}

TEST(ConfigLoaderTest, ValueOutOfRangeNamesTheRange) {
  EXPECT_EQ(error_of("scheduler: {max_running_requests: 0}"),
            "conf/a.yaml:1: scheduler.max_running_requests is \"0\"; it must be a whole number "
            "from 1 to 4096");
  EXPECT_THAT(error_of("scheduler: {max_context: 99999999999999999999}"),
              HasSubstr("from 0 to 16777216"));
  EXPECT_THAT(error_of("sampling: {top_p: 1.5}"),
              HasSubstr("sampling.top_p is \"1.5\"; it must be a number from 0 to 1, or -1"));
  EXPECT_THAT(error_of("sampling: {top_p: -0.5}"), HasSubstr("from 0 to 1, or -1"));
  EXPECT_THAT(error_of("kv_cache: {dtype: q4_0}"),
              HasSubstr("kv_cache.dtype is \"q4_0\"; it must be one of auto, f32, f16, bf16"));
  EXPECT_THAT(error_of("capture: {prefill: on}"), HasSubstr("one of off, full, breakable"));
  EXPECT_THAT(error_of("log: {level: loud}"), HasSubstr("one of error, warn, info, debug"));
}

TEST(ConfigLoaderTest, BadListItemNamesItsOwnLine) {
  EXPECT_EQ(error_of("capture:\n  decode_buckets:\n    - 1\n    - 0\n"),
            "conf/a.yaml:4: capture.decode_buckets is \"0\"; it must be a list of whole numbers, "
            "each from 1 to 4096");
}

TEST(ConfigLoaderTest, DuplicateKeyNamesBothLines) {
  EXPECT_EQ(error_of("kv_cache:\n  dtype: f16\n  dtype: f32\n"),
            "conf/a.yaml:3: key \"dtype\" is written twice; the first is on line 2");
  EXPECT_THAT(error_of("log: {level: info}\nmodel: {path: a}\nlog: {level: warn}\n"),
              HasSubstr("conf/a.yaml:3: key \"log\" is written twice; the first is on line 1"));
  EXPECT_THAT(error_of("backend: {options: {a: 1, a: 2}}"), HasSubstr("written twice"));
}

TEST(ConfigLoaderTest, PluginEntryIsChecked) {
  EXPECT_EQ(error_of("plugins:\n  load:\n    - path: a.so\n      optoinal: true\n"),
            "conf/a.yaml:4: unknown key \"optoinal\" in plugins.load; did you mean \"optional\"?");
  EXPECT_EQ(
      error_of("plugins: {load: [{path: a, nonsense: 1}]}"),
      "conf/a.yaml:1: unknown key \"nonsense\" in plugins.load; known: path, optional, sha256");
  EXPECT_THAT(error_of("plugins: {load: [{optional: true}]}"), HasSubstr("without a path"));
  EXPECT_THAT(error_of("plugins: {load: [{path: [a]}]}"),
              HasSubstr("plugins.load: path is a list; it must be a path"));
  EXPECT_THAT(error_of("plugins: {load: [{path: a, optional: maybe}]}"),
              HasSubstr("it must be true or false"));
}

TEST(ConfigLoaderTest, ChecksumOfAPluginIs64LowerCaseDigits) {
  const std::string digits(63, 'a');
  for (const std::string& sum : {std::string("abc"), digits, digits + "A", digits + "g"}) {
    EXPECT_EQ(error_of("plugins: {load: [{path: a, sha256: " + sum + "}]}"),
              "conf/a.yaml:1: plugins.load: sha256 is " +
                  (sum.size() > 60 ? '"' + sum.substr(0, 60) + "...\"" : '"' + sum + '"') +
                  "; it must be 64 digits 0-9 a-f");
  }
}

TEST(ConfigLoaderTest, SyntaxErrorNamesTheLine) {
  EXPECT_THAT(error_of("model:\n  path: [a\nlog: {"), HasSubstr("conf/a.yaml:"));
  EXPECT_THAT(error_of("model: {path: ]}\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of("- a\n- b\n"), HasSubstr("conf/a.yaml:1: a configuration is a map"));
  EXPECT_THAT(error_of("model: m.gguf\n"), HasSubstr("section \"model\" holds a single value"));
}

TEST(ConfigLoaderTest, ControlBytesDoNotReachTheTerminal) {
  EXPECT_THAT(error_of("log: {level: \"\\e[31m\"}"), HasSubstr("log.level is the text \"?[31m\""));
}

class ConfigPrecedenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("encore_config_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    sources_.file = (folder_ / "a.yaml").string();
    std::ofstream(sources_.file) << "scheduler: {max_context: 100}\n"
                                    "kv_cache: {page_size: 8}\n"
                                    "backend: {options: {threads: 1, isa: avx2}}\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  LoadedConfig load() {
    Result<LoadedConfig> loaded = load_config(sources_);
    EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
    return loaded.ok() ? *std::move(loaded) : LoadedConfig();
  }

  std::filesystem::path folder_;
  ConfigSources sources_;
};

TEST_F(ConfigPrecedenceTest, FlagsBeatEnvironmentBeatsFileBeatsDefaults) {
  EXPECT_EQ(load().config.scheduler.max_context, 100);
  sources_.environment = {{"ENCORE_SCHEDULER__MAX_CONTEXT", "200"}};
  EXPECT_EQ(load().config.scheduler.max_context, 200);
  sources_.settings = {{"--set", "scheduler.max_context", "300"}};
  const LoadedConfig loaded = load();
  EXPECT_EQ(loaded.config.scheduler.max_context, 300);
  EXPECT_EQ(loaded.config.kv_cache.page_size, 8);
  EXPECT_EQ(loaded.config.scheduler.max_running_requests, 4);
}

TEST_F(ConfigPrecedenceTest, OriginsNameWhereAValueWasWritten) {
  sources_.environment = {{"ENCORE_KV_CACHE__PAGE_SIZE", "32"}};
  sources_.settings = {{"--set", "log.level", "warn"}, {"--seed", "sampling.seed", "5"}};
  const LoadedConfig loaded = load();
  EXPECT_EQ(loaded.origin("scheduler.max_context"), sources_.file + ":1");
  EXPECT_EQ(loaded.origin("kv_cache.page_size"), "ENCORE_KV_CACHE__PAGE_SIZE");
  EXPECT_EQ(loaded.origin("log.level"), "--set log.level");
  EXPECT_EQ(loaded.origin("sampling.seed"), "--seed");
  EXPECT_EQ(loaded.origin("backend.options.isa"), sources_.file + ":3");
  EXPECT_EQ(loaded.origin("kv_cache.dtype"), "default");
}

TEST_F(ConfigPrecedenceTest, OneBackendOptionIsReplacedAndTheOthersStay) {
  sources_.environment = {{"ENCORE_BACKEND__OPTIONS__THREADS", "2"}};
  sources_.settings = {{"--set", "backend.options.numa", "off"}};
  EXPECT_THAT(load().config.backend.options,
              ElementsAre(std::pair<std::string, std::string>("threads", "2"),
                          std::pair<std::string, std::string>("isa", "avx2"),
                          std::pair<std::string, std::string>("numa", "off")));
}

TEST_F(ConfigPrecedenceTest, PathsInTheFileAreRelativeToItAndOthersAreNot) {
  std::ofstream(sources_.file) << "model: {path: sub/m.gguf}\n";
  EXPECT_EQ(load().config.model.path, (folder_ / "sub/m.gguf").string());
  sources_.settings = {{"--model", "model.path", "sub/m.gguf"}};
  EXPECT_EQ(load().config.model.path, "sub/m.gguf");
}

TEST_F(ConfigPrecedenceTest, OtherVariablesAreIgnored) {
  sources_.environment = {{"ENCORE_TEST_DATA", "x"}, {"HOME", "/"}, {"A__B", "1"}};
  EXPECT_EQ(load().config.scheduler.max_context, 100);
}

TEST(ConfigSettingTest, ListsMayBeCommasOrYaml) {
  for (const char* text : {"1,2,4", "[1, 2, 4]"}) {
    ConfigSources sources;
    sources.settings = {{"--set", "capture.decode_buckets", text}};
    const Result<LoadedConfig> loaded = load_config(sources);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    EXPECT_THAT(loaded->config.capture.decode_buckets, ElementsAre(1, 2, 4));
  }
}

TEST(ConfigSettingTest, ErrorsNameTheFlagOrVariable) {
  EXPECT_EQ(error_of_setting("kv_cache.pagesize", "4"),
            "--set kv_cache.pagesize: unknown key \"kv_cache.pagesize\"; did you mean "
            "\"kv_cache.page_size\"?");
  EXPECT_EQ(error_of_setting("kv_cache.page_size", "x"),
            "--set kv_cache.page_size: kv_cache.page_size is \"x\"; it must be a whole number "
            "from 1 to 1024");
  ConfigSources sources;
  sources.environment = {{"ENCORE_LOG__LEVL", "info"}};
  EXPECT_EQ(load_config(sources).status().message(),
            "ENCORE_LOG__LEVL: unknown key \"log.levl\"; did you mean \"log.level\"?");
}

TEST(ConfigSettingTest, SettingNeedsAKeyAndAValue) {
  EXPECT_EQ(parse_setting("--set", "a.b=c=d")->value, "c=d");
  EXPECT_THAT(parse_setting("--set", "a.b").status().message(),
              HasSubstr("write it as section.key=value"));
  EXPECT_FALSE(parse_setting("--set", "=1").ok());
}

TEST(ConfigFileTest, MissingFileAndFolderAreNamed) {
  ConfigSources sources;
  sources.file = "/nonexistent/encore.yaml";
  EXPECT_EQ(load_config(sources).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(load_config(sources).status().message(),
            "configuration file /nonexistent/encore.yaml does not exist");
  sources.file = "/dev/zero";
  EXPECT_THAT(load_config(sources).status().message(), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace encore
