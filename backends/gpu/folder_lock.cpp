#include "folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace encore::gpu {
namespace {

// A process that was stopped while it held the lock must not keep others from starting.
constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kPause{5};

// 0, or why the lock is not held.
int lock_within_patience(int folder) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (::flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= deadline) return errno;
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

}  // namespace

FolderLock::FolderLock(std::unique_lock<std::mutex> threads, int folder)
    : threads_(std::move(threads)), folder_(folder) {}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : threads_(std::move(other.threads_)), folder_(std::exchange(other.folder_, -1)) {}

FolderLock::~FolderLock() {
  if (folder_ >= 0) ::close(folder_);
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  static std::mutex mutex;
  FolderLock lock(std::unique_lock<std::mutex>(mutex),
                  ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.folder_ >= 0 && lock_within_patience(lock.folder_) == EWOULDBLOCK) {
    return unavailable("another process has locked the folder for " +
                       std::to_string(kPatience.count()) + " s");
  }
  return lock;
}

}  // namespace encore::gpu
