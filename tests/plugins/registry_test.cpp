// Finding plugins by name: the order, and never another backend in place of the one asked for.
#include "encore/loader/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "plugin_test_util.h"

namespace encore {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PluginRegistryTest : public testing::Test {
 public:
  ~PluginRegistryTest() override {
    ::unsetenv("ENCORE_TEST_LIE");
    fs::remove_all(folder_);
  }

 protected:
  PluginRegistryTest() {
    std::string pattern = testing::TempDir() + "/encore-registry-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }

  // Copies a test plugin to <folder>/<subfolder>/encore_backend_<as>.so.
  std::string put(const std::string& plugin, const std::string& subfolder, const std::string& as) {
    fs::create_directories(folder_ + "/" + subfolder);
    std::string path = folder_ + "/" + subfolder + "/encore_backend_" + as + ".so";
    fs::copy_file(test_plugin(plugin), path);
    return path;
  }

  PluginRegistry registry(PluginsConfig config, const std::string& installed = "") {
    return PluginRegistry(test_host(), std::move(config), installed);
  }

  std::string dir(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(PluginRegistryTest, DirsComeBeforeTheInstalledFolder) {
  const std::string first = put("fake", "a", "fake");
  put("fake", "installed", "fake");
  PluginRegistry plugins =
      registry({.load = {}, .dirs = {dir("empty"), dir("a")}}, dir("installed"));
  ASSERT_TRUE(plugins.find("fake").ok());
  ASSERT_EQ(plugins.plugins().size(), 1U);
  EXPECT_EQ(plugins.plugins()[0]->path, first);
}

TEST_F(PluginRegistryTest, InstalledFolderIsSearchedLast) {
  const std::string path = put("fake", "installed", "fake");
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("empty")}}, dir("installed"));
  const Result<Backend*> backend = plugins.find("fake");
  ASSERT_TRUE(backend.ok()) << backend.status().to_string();
  EXPECT_EQ((*backend)->identity().name, "fake");
  EXPECT_EQ(*plugins.find("fake"), *backend);
  EXPECT_EQ(plugins.plugins()[0]->path, path);
}

TEST_F(PluginRegistryTest, ExplicitPathWins) {
  put("fake", "a", "fake");
  const std::string chosen = put("fake", "elsewhere", "chosen");
  PluginRegistry plugins = registry({.load = {{.path = chosen}}, .dirs = {dir("a")}});
  ASSERT_TRUE(plugins.load_configured().ok());
  ASSERT_TRUE(plugins.find("fake").ok());
  EXPECT_EQ(plugins.plugins()[0]->path, chosen);
  EXPECT_EQ(plugins.plugins().size(), 1U);
}

TEST_F(PluginRegistryTest, WorkingDirectoryIsNotSearched) {
  put("fake", "here", "fake");
  const fs::path before = fs::current_path();
  fs::current_path(dir("here"));
  PluginRegistry plugins = registry({.load = {}, .dirs = {"."}});
  const Status status = plugins.find("fake").status();
  fs::current_path(before);
  EXPECT_THAT(status.message(), HasSubstr("the path is relative"));
  EXPECT_THAT(registry({}).find("fake").status().message(), HasSubstr("no plugin offers"));
}

TEST_F(PluginRegistryTest, SameFileUnderTwoNamesIsOnePlugin) {
  const std::string path = put("fake", "a", "fake");
  fs::create_symlink(path, dir("a/link.so"));
  fs::create_hard_link(path, dir("a/hard.so"));
  PluginRegistry plugins = registry({});
  const Result<LoadedPlugin*> first = plugins.load(path);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(*plugins.load(dir("a/link.so")), *first);
  EXPECT_EQ(*plugins.load(dir("a/hard.so")), *first);
  EXPECT_EQ(plugins.plugins().size(), 1U);
}

TEST_F(PluginRegistryTest, SameNameTwiceNamesBothFiles) {
  const std::string one = put("fake", "a", "fake");
  const std::string two = put("fake", "b", "fake");
  PluginRegistry plugins = registry({.load = {{.path = one}, {.path = two}}, .dirs = {}});
  const Status status = plugins.load_configured();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(one), HasSubstr(two), HasSubstr("'fake'")));
  EXPECT_EQ(plugins.failures()[0].stage(), LoadStage::kRegistration);
}

TEST_F(PluginRegistryTest, FileWithAnotherBackendInsideIsRefused) {
  put("fake", "a", "other");
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("a")}});
  EXPECT_THAT(plugins.find("other").status().message(),
              HasSubstr("loaded for backend 'other', but its backend is named 'fake'"));
}

TEST_F(PluginRegistryTest, UnknownNameSaysWhatWasTriedAndWhatIsThere) {
  const std::string fake = put("fake", "a", "fake");
  const std::string broken = put("no_entry", "b", "broken");
  PluginRegistry plugins =
      registry({.load = {{.path = fake}, {.path = broken, .optional = true}}, .dirs = {dir("b")}},
               dir("installed"));
  ASSERT_TRUE(plugins.load_configured().ok());
  const Status status = plugins.find("cuda").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("no plugin offers backend 'cuda'"),
                    HasSubstr("not there: " + dir("b") + "/encore_backend_cuda.so"),
                    HasSubstr("not there: " + dir("installed") + "/encore_backend_cuda.so"),
                    HasSubstr("loaded: 'fake' from " + fake), HasSubstr("failed: " + broken),
                    HasSubstr("not an Encore plugin")));
}

TEST_F(PluginRegistryTest, NameThatIsAPathIsRefused) {
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("a")}});
  EXPECT_EQ(plugins.find("../fake").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plugins.find("").status().code(), StatusCode::kInvalidArgument);
}

// A named backend that fails is an error with its file and reason, though a good one lies further
// down the order: nothing takes its place. (Known fault P1.)
TEST_F(PluginRegistryTest, OlderAbiFailsNamingFileWantedAndFound) {
  ::setenv("ENCORE_TEST_LIE", "major", 1);
  const std::string path = put("c", "a", "fake");
  put("fake", "installed", "fake");
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("a")}}, dir("installed"));
  const Status status = plugins.find("fake").status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(path), HasSubstr("ABI 7.2"), HasSubstr("host 1.1")));
  EXPECT_TRUE(plugins.plugins().empty());
}

TEST_F(PluginRegistryTest, PluginThatThrowsFailsWithItsMessage) {
  const std::string path = put("throwing", "a", "fake");
  put("fake", "installed", "fake");
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("a")}}, dir("installed"));
  const Status status = plugins.find("fake").status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("driver 470 is too old")));
  EXPECT_TRUE(plugins.plugins().empty());
}

TEST_F(PluginRegistryTest, PluginLinkedToAMissingLibraryFailsNamingIt) {
  const std::string path = put("needy", "a", "fake");
  put("fake", "installed", "fake");
  PluginRegistry plugins = registry({.load = {}, .dirs = {dir("a")}}, dir("installed"));
  const Status status = plugins.find("fake").status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("libencore_test_first.so")));
  EXPECT_TRUE(plugins.plugins().empty());
}

TEST_F(PluginRegistryTest, OptionalPluginThatFailsIsAWarningWithTheReason) {
  std::string line;
  sdk::LogLevel level = sdk::LogLevel::kDebug;
  const HostInfo host = {.version = "test", .log = [&](sdk::LogLevel at, std::string_view text) {
                           level = at;
                           line = text;
                         }};
  {
    PluginRegistry plugins(
        host, {.load = {{.path = test_plugin("needy"), .optional = true}}, .dirs = {}}, "");
    EXPECT_TRUE(plugins.load_configured().ok());
    EXPECT_EQ(plugins.failures().size(), 1U);
  }
  EXPECT_EQ(level, sdk::LogLevel::kWarn);
  EXPECT_THAT(line, AllOf(HasSubstr("optional plugin"), HasSubstr("libencore_test_first.so")));
  // The log outlives this test in no other way.
  (void)load_plugin("/none", {.version = "test", .log = [](sdk::LogLevel, std::string_view) {}});
}

TEST_F(PluginRegistryTest, InstalledFolderIsBesideTheProgramsFolder) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  EXPECT_EQ(installed_plugin_dir(), program.parent_path().parent_path() / "lib/encore/plugins");
}

}  // namespace
}  // namespace encore
