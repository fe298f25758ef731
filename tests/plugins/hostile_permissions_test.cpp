// Files and folders that others could change, on the path itself and behind symbolic links.
#include <unistd.h>

#include "hostile_test_util.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 54321;

class HostilePermissionsTest : public HostileTest {
 protected:
  static void set_mode(const std::string& path, unsigned mode) {
    fs::permissions(path, static_cast<fs::perms>(mode));
  }

  void expect_refused_now(LoadCode code, const std::string& words) {
    expect_refused(code, StatusCode::kFailedPrecondition, words);
  }
};

TEST_F(HostilePermissionsTest, FileThatGroupOrOthersCanWriteIsRefused) {
  const std::string path = copy("fake", "fake.so");
  for (const unsigned mode : {0646U, 0664U}) {
    set_mode(path, mode);
    load(path);
    expect_refused_now(LoadCode::kFileWritable, "chmod go-w " + path);
  }
  set_mode(path, 0755);
  load(path);
  expect_loaded();
}

TEST_F(HostilePermissionsTest, EveryFolderAboveCounts) {
  make_folder("outer");
  make_folder("outer/inner");
  const std::string path = copy("fake", "outer/inner/fake.so");
  set_mode(in_folder("outer/inner"), 0777);
  load(path);
  expect_refused_now(LoadCode::kFolderWritable,
                     "folder " + in_folder("outer/inner") + " has mode 0777");
  set_mode(in_folder("outer/inner"), 0755);
  set_mode(in_folder("outer"), 0775);
  load(path);
  expect_refused_now(LoadCode::kFolderWritable, "chmod go-w " + in_folder("outer"));
}

TEST_F(HostilePermissionsTest, StickyFolderIsSafeForWhatIsOurs) {
  make_folder("shared");
  set_mode(in_folder("shared"), 01777);
  make_folder("shared/mine");
  load(copy("fake", "shared/mine/fake.so"));
  expect_loaded();
  load(copy("fake", "shared/fake.so"));
  expect_loaded();
}

TEST_F(HostilePermissionsTest, LinkIntoAnUnsafeFolderIsRefused) {
  make_folder("open");
  fs::create_symlink(copy("fake", "open/fake.so"), in_folder("link.so"));
  set_mode(in_folder("open"), 0777);
  load(in_folder("link.so"));
  expect_refused_now(LoadCode::kFolderWritable, "folder " + in_folder("open"));
}

TEST_F(HostilePermissionsTest, LinkInAnUnsafeFolderIsRefused) {
  make_folder("open");
  fs::create_symlink(copy("fake", "fake.so"), in_folder("open/link.so"));
  set_mode(in_folder("open"), 0777);
  load(in_folder("open/link.so"));
  expect_refused_now(LoadCode::kFolderWritable, "folder " + in_folder("open"));
}

TEST_F(HostilePermissionsTest, FolderThatALinkPassesThroughCounts) {
  make_folder("open");
  make_folder("safe");
  copy("fake", "safe/fake.so");
  set_mode(in_folder("open"), 0777);
  fs::create_symlink("open/../safe", in_folder("way"));
  load(in_folder("way/fake.so"));
  expect_loaded();  // `open` is named but nothing is taken from it
  fs::create_symlink("../safe", in_folder("open/on"));
  fs::remove(in_folder("way"));
  fs::create_symlink("open/on", in_folder("way"));
  load(in_folder("way/fake.so"));
  expect_refused_now(LoadCode::kFolderWritable, "folder " + in_folder("open"));
}

TEST_F(HostilePermissionsTest, SafeLinkLoadsUnderItsRealPath) {
  make_folder("safe");
  const std::string path = copy("fake", "safe/fake.so");
  fs::create_symlink("safe/../safe/fake.so", in_folder("link.so"));
  load(in_folder("link.so"));
  expect_loaded();
  ASSERT_TRUE(loaded_.has_value());
  EXPECT_EQ(loaded_->path, in_folder("link.so"));
  EXPECT_EQ(loaded_->real_path, fs::canonical(path));
}

TEST_F(HostilePermissionsTest, FileOrFolderOfAnotherUserIsRefused) {
  if (!is_root()) GTEST_SKIP() << "only root can give a file to another user";
  make_folder("theirs");
  const std::string path = copy("fake", "theirs/fake.so");
  ASSERT_EQ(::chown(path.c_str(), kStranger, 0), 0);
  load(path);
  expect_refused_now(LoadCode::kFileOwner, "the file " + path + " is owned by 54321");
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(in_folder("theirs").c_str(), kStranger, 0), 0);
  load(path);
  expect_refused_now(LoadCode::kFolderOwner,
                     "folder " + in_folder("theirs") + " is owned by 54321");
}

TEST_F(HostilePermissionsTest, StickyFolderIsUnsafeForWhatIsAnothers) {
  if (!is_root()) GTEST_SKIP() << "only root can give a file to another user";
  make_folder("shared");
  set_mode(in_folder("shared"), 01777);
  fs::create_symlink(copy("fake", "fake.so"), in_folder("shared/link.so"));
  load(in_folder("shared/link.so"));
  expect_loaded();
  ASSERT_EQ(::lchown(in_folder("shared/link.so").c_str(), kStranger, 0), 0);
  load(in_folder("shared/link.so"));
  expect_refused_now(
      LoadCode::kFolderWritable,
      "folder " + in_folder("shared") + " is for everybody, and link.so in it is owned by 54321");
}

}  // namespace
}  // namespace encore
