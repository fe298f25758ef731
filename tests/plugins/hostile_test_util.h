// What the tests with hostile plugins share: a folder of their own, loading with every detail of
// the failure, and the proof that host and other plugins are none the worse.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "encore/loader/plugin_loader.h"
#include "plugin_test_util.h"

namespace encore {

// No test waits this long for a plugin that is in order.
inline constexpr int64_t kPatientMs = 120'000;

class HostileTest : public testing::Test {
 public:
  ~HostileTest() override {
    ::unsetenv("ENCORE_TEST_LIE");
    std::filesystem::remove_all(folder_);
  }

 protected:
  HostileTest() {
    std::string pattern = testing::TempDir() + "/encore-hostile-XXXXXX";
    folder_ = std::filesystem::canonical(::mkdtemp(pattern.data()));
    host_ = test_host();
    host_.probe_timeout_ms = kPatientMs;
  }

  static void tell(const std::string& lie) { ::setenv("ENCORE_TEST_LIE", lie.c_str(), 1); }
  static bool is_root() { return ::geteuid() == 0; }

  static std::string bytes_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  // A file or folder below the test's own, closed to others whatever the umask.
  std::string write(const std::string& name, const std::string& bytes) {
    std::string path = in_folder(name);
    std::ofstream(path, std::ios::binary) << bytes;
    std::filesystem::permissions(path, std::filesystem::perms(0644));
    return path;
  }

  std::string make_folder(const std::string& name) {
    std::string path = in_folder(name);
    std::filesystem::create_directory(path);
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    return path;
  }

  std::string in_folder(const std::string& name) const {
    std::string path = folder_;
    return path.append("/").append(name);
  }

  // A copy of a test plugin.
  std::string copy(const std::string& plugin, const std::string& name) {
    return write(name, bytes_of(test_plugin(plugin)));
  }

  // Loads, and keeps what came of it in loaded_, status_ and failure_.
  void load(const std::string& path, const PluginLoadOptions& options = {}) {
    loaded_.reset();
    status_ = {};
    failure_ = {};
    Result<LoadedPlugin> plugin = load_plugin(path, host_, &failure_, options);
    if (plugin.ok()) {
      loaded_ = std::move(plugin).value();
    } else {
      status_ = plugin.status();
    }
  }

  // The last load() failed like this; the file's path and the stage are in the message too. A
  // plugin in order loads, before and after.
  void expect_refused(LoadCode code, StatusCode status_code, const std::string& words) {
    EXPECT_FALSE(loaded_.has_value());
    EXPECT_EQ(load_code_name(failure_.code), load_code_name(code)) << failure_.message;
    EXPECT_EQ(status_code_name(status_.code()), status_code_name(status_code));
    EXPECT_THAT(failure_.message, testing::HasSubstr(words));
    EXPECT_EQ(status_.message(), "plugin " + failure_.path + ": " +
                                     std::string(load_stage_name(load_stage_of(code))) + ": " +
                                     failure_.message);
    expect_others_load();
  }

  void expect_loaded() {
    EXPECT_TRUE(loaded_.has_value()) << status_.to_string();
    expect_others_load();
  }

  std::string folder_;
  HostInfo host_;
  std::optional<LoadedPlugin> loaded_;
  Status status_;
  LoadFailure failure_;

 private:
  void expect_others_load() {
    ::unsetenv("ENCORE_TEST_LIE");
    const Result<LoadedPlugin> other =
        load_plugin(test_plugin("fake"), host_, nullptr, {.probe = false});
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    EXPECT_TRUE(other->backend->probe().usable);
  }
};

}  // namespace encore
