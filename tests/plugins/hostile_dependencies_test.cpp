// Libraries that a plugin needs and that are not there, with a hint where to get them; and symbols
// that nobody defines.
#include "dependencies.h"
#include "hostile_test_util.h"
#include "package_hints.h"

namespace encore {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HostileDependenciesTest : public HostileTest {
 protected:
  // Puts a library that no folder on the linker's way has beside the test's plugin.
  void supply(const std::string& library) {
    write(library, bytes_of(std::string(ENCORE_TEST_HIDDEN_DIR "/") + library));
  }
};

TEST_F(HostileDependenciesTest, AllMissingLibrariesAreListed) {
  load(test_plugin("needy"));
  EXPECT_THAT(failure_.message,
              AllOf(HasSubstr("libencore_test_first.so (needed by " + test_plugin("needy") + ")"),
                    HasSubstr("libencore_test_second.so"), HasSubstr("LD_LIBRARY_PATH")));
  expect_refused(LoadCode::kDependencyMissing, StatusCode::kNotFound, "libraries not found");
}

TEST_F(HostileDependenciesTest, LibraryBesideThePluginIsFound) {
  const std::string path = copy("needy", "needy.so");
  supply("libencore_test_first.so");
  load(path);
  EXPECT_THAT(failure_.message, Not(HasSubstr("libencore_test_first.so")));
  expect_refused(LoadCode::kDependencyMissing, StatusCode::kNotFound, "libencore_test_second.so");
  supply("libencore_test_second.so");
  const auto missing = missing_dependencies(path);
  ASSERT_TRUE(missing.ok());
  EXPECT_THAT(*missing, testing::IsEmpty());
}

TEST_F(HostileDependenciesTest, MissingLibraryOfALibraryIsListedWithWhoNeedsIt) {
  const std::string folder = ENCORE_TEST_PLUGIN_DIR;
  load(folder + "/libencore_test_outer.so");
  expect_refused(LoadCode::kDependencyMissing, StatusCode::kNotFound,
                 "libencore_test_second.so (needed by " + folder + "/libencore_test_chain.so)");
}

TEST_F(HostileDependenciesTest, MissingLibraryComesWithThePackageThatBringsIt) {
  // The same plugin, asking for another library in place of one of its own.
  const std::string name("libencore_test_second.so\0", 25);
  std::string other("libmkl_rt.so.99\0", 16);
  other.resize(name.size(), '\0');
  std::string bytes = bytes_of(test_plugin("needy"));
  const size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, name.size(), other);
  const std::string path = write("needy.so", bytes);
  load(path);
  expect_refused(LoadCode::kDependencyMissing, StatusCode::kNotFound,
                 "libmkl_rt.so.99 (needed by " + path + "; usually in libmkl-rt)");
}

TEST_F(HostileDependenciesTest, HintsKnowVersionsAndPlainNames) {
  EXPECT_THAT(std::string(package_hint("libcuda.so.1")), HasSubstr("libcuda1"));
  EXPECT_THAT(std::string(package_hint("libcublas.so.12")), HasSubstr("libcublas-<version>"));
  EXPECT_THAT(std::string(package_hint("libcublas.so.13")), HasSubstr("libcublas-<version>"));
  EXPECT_THAT(std::string(package_hint("libcublasLt.so.12")), HasSubstr("libcublas-<version>"));
  EXPECT_EQ(package_hint("libgomp.so.1"), "libgomp1");
  EXPECT_EQ(package_hint("libgomp.so.2"), "");
  EXPECT_EQ(package_hint("libcublas.sonata"), "");
  EXPECT_EQ(package_hint("libacme.so"), "");
}

TEST_F(HostileDependenciesTest, UndefinedSymbolIsNamedInTheLinkersWords) {
  for (const bool probe : {true, false}) {
    load(test_plugin("undefined"), {.probe = probe});
    EXPECT_THAT(failure_.message, HasSubstr(test_plugin("undefined") + ": "));
    expect_refused(LoadCode::kLinker, StatusCode::kUnavailable,
                   "undefined symbol: encore_test_nowhere_defined");
  }
}

}  // namespace
}  // namespace encore
