// A plugin found good is tried out once: until it, the options or the host change.
#include "verdict_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "hostile_test_util.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

class VerdictCacheTest : public HostileTest {
 protected:
  VerdictCacheTest() {
    host_.verdict_folder = in_folder("cache/encore");
    plugin_ = copy("c", "c.so");
  }

  ProbeVerdict verdict(const PluginLoadOptions& options = {}) {
    load(plugin_, options);
    EXPECT_TRUE(loaded_.has_value()) << status_.to_string();
    return loaded_.has_value() ? loaded_->verdict : ProbeVerdict::kNotAsked;
  }

  size_t num_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(host_.verdict_folder), {}));
  }

  std::string only_file() const {
    return fs::directory_iterator(host_.verdict_folder)->path().string();
  }

  std::string plugin_;
};

TEST_F(VerdictCacheTest, SecondLoadRemembers) {
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict(), ProbeVerdict::kRemembered);
  EXPECT_EQ(num_files(), 1U);
  EXPECT_EQ(fs::status(host_.verdict_folder).permissions(), fs::perms(0700));
  tell("crash_init");  // proof that no child runs; this process does not call init()
  EXPECT_EQ(verdict(), ProbeVerdict::kRemembered);
}

TEST_F(VerdictCacheTest, ChangedFileIsTriedAgain) {
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  fs::last_write_time(plugin_, fs::last_write_time(plugin_) + std::chrono::nanoseconds(1));
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict(), ProbeVerdict::kRemembered);
  const std::string bytes = bytes_of(plugin_);
  fs::remove(plugin_);
  write("c.so", bytes);  // another inode or another time
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(num_files(), 1U) << "one file a plugin, however often it changes";
}

TEST_F(VerdictCacheTest, OtherOptionsAndHostsAreTriedAgain) {
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict({.probe_options = {{"speed", "2"}}}), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict({.probe_options = {{"speed", "2"}}}), ProbeVerdict::kRemembered);
  EXPECT_EQ(verdict(), ProbeVerdict::kRemembered);
  host_.version = "test 2";
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(num_files(), 2U);
}

TEST_F(VerdictCacheTest, BadAndUnavailableAreNotRemembered) {
  tell("crash_init");
  load(plugin_);
  EXPECT_EQ(failure_.code, LoadCode::kProbeCrashed);
  tell("absent");
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_FALSE(fs::exists(host_.verdict_folder));
  ::unsetenv("ENCORE_TEST_LIE");
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
}

TEST_F(VerdictCacheTest, FilesThatOthersCouldHaveWrittenDoNotCount) {
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  fs::permissions(only_file(), fs::perms(0622));
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh) << "and is written anew";
  EXPECT_EQ(verdict(), ProbeVerdict::kRemembered);
  fs::permissions(host_.verdict_folder, fs::perms(0777));
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
}

TEST_F(VerdictCacheTest, DamagedFileDoesNotCount) {
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  const std::string file = only_file();
  const std::string key = bytes_of(file);
  const VerdictCache cache(host_.verdict_folder);
  ASSERT_TRUE(cache.holds(key));
  for (const std::string& damaged : {std::string(), key.substr(1), key + "\n"}) {
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_FALSE(cache.holds(key));
  }
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache.holds(key));
  EXPECT_TRUE(cache.remember(key));
  EXPECT_TRUE(cache.holds(key));
}

TEST_F(VerdictCacheTest, NoFolderMeansNoMemory) {
  host_.verdict_folder = "";
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
  host_.verdict_folder = write("file", "") + "/below";
  EXPECT_EQ(verdict(), ProbeVerdict::kFresh);
}

TEST_F(VerdictCacheTest, DefaultFolderFollowsTheEnvironment) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string old_xdg = xdg == nullptr ? "" : xdg;
  const std::string old_home = home == nullptr ? "" : home;
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(default_verdict_folder(), "/x/encore");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(default_verdict_folder(), "/h/.cache/encore");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(default_verdict_folder(), "");
  if (xdg != nullptr) ::setenv("XDG_CACHE_HOME", old_xdg.c_str(), 1);
  if (home != nullptr) ::setenv("HOME", old_home.c_str(), 1);
}

}  // namespace
}  // namespace encore
