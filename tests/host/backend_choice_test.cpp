// Which plugin `backend.name` gets from the command line's point of view: exit codes, the place of
// the mistake, and never another backend in place of the one asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "run_command.h"

namespace encore {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kModel = "model: {path: " ENCORE_TEST_GOLDEN_MODELS "/tiny_llama}\n";

CommandResult run_with(const std::string& file) {
  CommandResult result = run_encore({"run", file, "--prompt", "hello"});
  EXPECT_EQ(result.out, "") << "it ran somewhere";
  return result;
}

TEST(BackendChoiceTest, AnUnavailableBackendExitsWithTwoAndItsReason) {
  const std::string file = write_temporary(
      "absent.yaml", std::string(kModel) + "backend:\n  name: acme.absent\nplugins: {load: [" +
                         ENCORE_ABSENT_PLUGIN + "]}\n");
  const CommandResult result = run_with(file);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr(file + ":3: backend \"acme.absent\" is unavailable: there is no Acme card"));
}

TEST(BackendChoiceTest, AnUnknownNameExitsWithTwoAndListsWhatWasFound) {
  const std::string file = write_temporary(
      "unknown.yaml", std::string(kModel) + "backend:\n  name: acme.absnt\nplugins: {load: [" +
                          ENCORE_ABSENT_PLUGIN + "]}\n");
  const CommandResult result = run_with(file);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file + ":3: no plugin offers backend 'acme.absnt'; did "
                                                 "you mean 'acme.absent'?"),
                                HasSubstr("found: 'acme.absent' from " ENCORE_ABSENT_PLUGIN),
                                HasSubstr("found: 'cpu' from "), HasSubstr("(installed): ")));
}

TEST(BackendChoiceTest, ABrokenPluginThatIsNamedIsFatal) {
  const std::string plugin = write_temporary("broken.so", "this is no library");
  const std::string file =
      write_temporary("broken.yaml", std::string(kModel) + "plugins: {load: [broken.so]}\n");
  const CommandResult result = run_with(file);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("plugin " + plugin));
}

TEST(BackendChoiceTest, AWrongChecksumIsFatalAndNamesIt) {
  const std::string file = write_temporary(
      "sum.yaml", std::string(kModel) +
                      "backend: {name: acme.absent}\nplugins:\n  load:\n    - {path: " +
                      ENCORE_ABSENT_PLUGIN + ", sha256: " + std::string(64, '0') + "}\n");
  const CommandResult result = run_with(file);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr(ENCORE_ABSENT_PLUGIN), HasSubstr("SHA-256")));
}

TEST(BackendChoiceTest, AnUnknownVariantNamesThePlaceOfTheOption) {
  const std::string file = write_temporary(
      "isa.yaml", std::string(kModel) + "backend:\n  name: cpu\n  options:\n    isa: sse9\n");
  const CommandResult result = run_with(file);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file + ":5: backend.options: "),
                                HasSubstr("isa is \"sse9\"; variants of cpu: auto, ")));
}

// A library of the right name where the command is run, and nothing that names it.
TEST(BackendChoiceTest, ADecoyInTheWorkingDirectoryIsNotUsed) {
  const std::string file =
      write_temporary("decoy.yaml", std::string(kModel) + "backend:\n  name: acme.absent\n");
  const fs::path folder = fs::path(file).parent_path();
  for (const char* name : {"encore_backend_acme.absent.so", "acme.absent.so", "acme.absent"}) {
    fs::copy_file(ENCORE_ABSENT_PLUGIN, folder / name, fs::copy_options::overwrite_existing);
  }
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  const CommandResult result = run_with(file);
  fs::current_path(before);
  for (const char* name : {"encore_backend_acme.absent.so", "acme.absent.so", "acme.absent"}) {
    fs::remove(folder / name);
  }
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no plugin offers backend 'acme.absent'"));
}

}  // namespace
}  // namespace encore
