// Both tuning caches when several use one file, and when it cannot be written.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "choice_cache.h"
#include "file_text.h"
#include "temp_folder.h"
#include "tuning_cache.h"

namespace encore::gpu {
namespace {

using testing::read;
using testing::TempFolder;
using testing::write;

constexpr char kIdentity[] = "Some GPU";

std::atomic<int> flock_error = 0;  // what flock() gives instead, if not 0

// Entry i of a cache, with a value.
void put(TuningCache& cache, int i, int value) {
  cache.put({i + 1, 8, 8}, {static_cast<std::byte>(value)});
}
int get(const TuningCache& cache, int i) {
  const AlgorithmBytes* found = cache.find({i + 1, 8, 8});
  return found == nullptr ? -1 : std::to_integer<int>(found->front());
}
void put(ChoiceCache& cache, int i, int value) { cache.put(std::to_string(i) + " rows", {value}); }
int get(const ChoiceCache& cache, int i) {
  const std::vector<int32_t>* found = cache.find(std::to_string(i) + " rows");
  return found == nullptr ? -1 : found->front();
}

template <typename Cache>
class TuningEntriesTest : public ::testing::Test {
 protected:
  ~TuningEntriesTest() override { flock_error = 0; }

  std::filesystem::path path() const { return folder_.path() / "tuning"; }
  Cache opened() const {
    Cache cache(path(), kIdentity);
    const Status loaded = cache.load();
    EXPECT_TRUE(loaded.ok()) << loaded.to_string();
    return cache;
  }
  void save(Cache& cache) const {
    const Status saved = cache.save();
    EXPECT_TRUE(saved.ok()) << saved.to_string();
  }
  // The values of entries 0, 1, ... of the file; -1 where there is none.
  std::vector<int> kept(int count) const {
    const Cache cache = opened();
    std::vector<int> values;
    for (int i = 0; i < count; ++i) values.push_back(get(cache, i));
    return values;
  }
  // A plain file stands where the folder should: nothing can be written, by root neither.
  void make_unwritable() const {
    std::filesystem::rename(path(), folder_.path() / "away");
    write(path(), "not a folder");
  }
  // Each of `count` saves entries of its own, one at a time.
  static void save_many(const std::filesystem::path& path, int first, int count) {
    Cache cache(path, kIdentity);
    for (int i = first; i < first + count; ++i) {
      put(cache, i, i % 100);
      if (!cache.save().ok()) ::_exit(1);
    }
  }

  TempFolder folder_;
};

using Caches = ::testing::Types<TuningCache, ChoiceCache>;
TYPED_TEST_SUITE(TuningEntriesTest, Caches);

TYPED_TEST(TuningEntriesTest, WhatOthersSavedMeanwhileStays) {
  for (const bool first_saves_first : {true, false}) {
    std::filesystem::remove_all(this->path());
    TypeParam one = this->opened();
    TypeParam other = this->opened();
    put(one, 0, 10);
    put(other, 1, 11);
    this->save(first_saves_first ? one : other);
    this->save(first_saves_first ? other : one);
    EXPECT_EQ(this->kept(2), (std::vector<int>{10, 11})) << first_saves_first;
    // What a cache serves by is what it loaded and what was put.
    EXPECT_EQ(get(one, 1), -1);
    EXPECT_EQ(get(other, 0), -1);
  }
}

TYPED_TEST(TuningEntriesTest, OfTwoValuesTheLastSavedStays) {
  TypeParam one = this->opened();
  TypeParam other = this->opened();
  put(one, 0, 10);
  put(other, 0, 20);
  this->save(one);
  this->save(other);
  EXPECT_EQ(this->kept(1), (std::vector<int>{20}));
}

TYPED_TEST(TuningEntriesTest, NothingNewIsNotWritten) {
  TypeParam first = this->opened();
  put(first, 0, 10);
  this->save(first);
  TypeParam complete = this->opened();
  this->make_unwritable();
  this->save(first);
  this->save(complete);
  put(complete, 1, 11);
  EXPECT_EQ(complete.save().code(), StatusCode::kUnavailable);
  // What was not written is still new.
  EXPECT_EQ(complete.save().code(), StatusCode::kUnavailable);
}

TYPED_TEST(TuningEntriesTest, ADamagedFileIsReplacedThoughNothingIsNew) {
  TypeParam first = this->opened();
  put(first, 0, 10);
  this->save(first);
  write(first.path(), "half a fi");
  TypeParam cache(this->path(), kIdentity);
  EXPECT_EQ(cache.load().code(), StatusCode::kDataLoss);
  this->save(cache);
  EXPECT_EQ(this->kept(1), (std::vector<int>{-1}));
}

TYPED_TEST(TuningEntriesTest, AFileDamagedMeanwhileIsReplaced) {
  TypeParam cache = this->opened();
  put(cache, 0, 10);
  this->save(cache);
  write(cache.path(), "half a fi");
  put(cache, 1, 11);
  this->save(cache);
  EXPECT_EQ(this->kept(2), (std::vector<int>{10, 11}));
}

TYPED_TEST(TuningEntriesTest, ThreadsThatSaveAtOnceLoseNothing) {
  for (const int error : {0, ENOLCK}) {  // with locks between processes, and without
    flock_error = error;
    std::filesystem::remove_all(this->path());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] { this->save_many(this->path(), t * 16, 16); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<int> all;
    for (int i = 0; i < 64; ++i) all.push_back(i);
    EXPECT_EQ(this->kept(64), all) << error;
  }
}

TYPED_TEST(TuningEntriesTest, ProcessesThatSaveAtOnceLoseNothing) {
  std::vector<pid_t> processes;
  for (int p = 0; p < 4; ++p) {
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      this->save_many(this->path(), p * 16, 16);
      ::_exit(0);
    }
    processes.push_back(process);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  std::vector<int> all;
  for (int i = 0; i < 64; ++i) all.push_back(i);
  EXPECT_EQ(this->kept(64), all);
}

TYPED_TEST(TuningEntriesTest, AFileSystemWithoutLocksIsSavedTo) {
  for (const int error : {ENOLCK, ENOTSUP, EBADF}) {
    flock_error = error;
    TypeParam cache = this->opened();
    put(cache, error, 10);
    this->save(cache);
    EXPECT_EQ(get(this->opened(), error), 10) << error;
  }
}

TYPED_TEST(TuningEntriesTest, AFolderThatStaysLockedIsTold) {
  TypeParam cache = this->opened();
  put(cache, 0, 10);
  this->save(cache);
  const int folder = ::open(this->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(folder, 0);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  put(cache, 1, 11);
  const Status refused = cache.save();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "cannot keep tuning results in " + cache.path().string() +
                                   ": another process has locked the folder for 2 s");
  EXPECT_EQ(this->kept(2), (std::vector<int>{10, -1}));

  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::close(folder);
  });
  this->save(cache);
  holder.join();
  EXPECT_EQ(this->kept(2), (std::vector<int>{10, 11}));
}

}  // namespace
}  // namespace encore::gpu

// In the C library's place, for file systems that have no locks.
extern "C" int flock(int file, int operation) noexcept {
  if (encore::gpu::flock_error != 0) {
    errno = encore::gpu::flock_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}
