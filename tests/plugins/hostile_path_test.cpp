// Paths that name no plugin: each refused by what it is, and none opened in a way that waits.
#include <sys/stat.h>

#include "hostile_test_util.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

class HostilePathTest : public HostileTest {};

TEST_F(HostilePathTest, RelativePathIsRefused) {
  load("encore_backend_fake.so");
  expect_refused(LoadCode::kPathRelative, StatusCode::kInvalidArgument, "the path is relative");
  load("");
  expect_refused(LoadCode::kPathRelative, StatusCode::kInvalidArgument, "the path is relative");
}

TEST_F(HostilePathTest, MissingFileIsNamed) {
  load("/no/such/plugin.so");
  EXPECT_EQ(status_.message(), "plugin /no/such/plugin.so: path: No such file or directory");
  EXPECT_EQ(failure_.path, "/no/such/plugin.so");
  expect_refused(LoadCode::kPathMissing, StatusCode::kNotFound, "No such file or directory");
}

TEST_F(HostilePathTest, FileInAFoldersPlaceIsRefused) {
  load(copy("fake", "fake.so") + "/plugin.so");
  expect_refused(LoadCode::kPathMissing, StatusCode::kNotFound, "Not a directory");
}

TEST_F(HostilePathTest, ZeroByteDoesNotShortenThePath) {
  load(copy("fake", "fake.so") + std::string("\0.txt", 5));
  expect_refused(LoadCode::kPathMissing, StatusCode::kNotFound, "zero byte");
}

TEST_F(HostilePathTest, DanglingLinkNamesItsTarget) {
  fs::create_symlink("/no/such/target.so", in_folder("link.so"));
  load(in_folder("link.so"));
  expect_refused(LoadCode::kPathMissing, StatusCode::kNotFound,
                 "a symbolic link to /no/such/target.so, which does not exist");
}

TEST_F(HostilePathTest, LoopingLinksAreRefused) {
  fs::create_symlink(in_folder("b.so"), in_folder("a.so"));
  fs::create_symlink(in_folder("a.so"), in_folder("b.so"));
  load(in_folder("a.so"));
  expect_refused(LoadCode::kPathLoop, StatusCode::kNotFound, "lead back to each other");
}

TEST_F(HostilePathTest, FolderPipeAndDeviceAreRefusedWithoutOpeningThem) {
  load(folder_);
  expect_refused(LoadCode::kPathNotAFile, StatusCode::kNotFound, "it is a folder");
  ASSERT_EQ(::mkfifo(in_folder("pipe.so").c_str(), 0600), 0);
  load(in_folder("pipe.so"));  // opening it to read would wait for a writer
  expect_refused(LoadCode::kPathNotAFile, StatusCode::kNotFound, "it is a pipe");
  load("/dev/zero");
  expect_refused(LoadCode::kPathNotAFile, StatusCode::kNotFound, "it is a device");
  fs::create_symlink(in_folder("pipe.so"), in_folder("link.so"));
  load(in_folder("link.so"));
  expect_refused(LoadCode::kPathNotAFile, StatusCode::kNotFound, "it is a pipe");
}

TEST_F(HostilePathTest, UnreadableFileSaysSo) {
  if (is_root()) GTEST_SKIP() << "root can read every file";
  const std::string path = copy("fake", "fake.so");
  fs::permissions(path, fs::perms(0200));
  load(path);
  expect_refused(LoadCode::kPathUnreadable, StatusCode::kNotFound, "cannot read it");
}

TEST_F(HostilePathTest, ChecksumDecides) {
  // echo -n abc | sha256sum
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::string path = write("abc.so", "abc");
  load(path, {.sha256 = abc});
  EXPECT_EQ(failure_.code, LoadCode::kElfMagic) << "right, so the next stages had their turn";
  load(path, {.sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"});
  EXPECT_EQ(failure_.code, LoadCode::kElfMagic) << "either case";
  std::string wrong = abc;
  wrong[0] = 'c';
  load(path, {.sha256 = wrong});
  expect_refused(LoadCode::kChecksum, StatusCode::kDataLoss,
                 "its SHA-256 is " + abc + ", not " + wrong);
  load(path, {.sha256 = "ba78"});
  expect_refused(LoadCode::kChecksum, StatusCode::kInvalidArgument,
                 "sha256 is 'ba78'; it has 64 hexadecimal digits");
}

}  // namespace
}  // namespace encore
