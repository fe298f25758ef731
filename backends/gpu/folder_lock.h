// Keeps threads and processes that change files of one folder apart.
#pragma once

#include <filesystem>
#include <mutex>

#include "encore/status.h"

namespace encore::gpu {

// Held while it lives, in the thread that took it.
class FolderLock {
 public:
  // Waits for other threads of the process, then up to 2 s for other processes. Where the folder
  // cannot be locked against them (some network file systems) it is held against threads alone.
  // Leaves no file. Errors: kUnavailable if another process has not let go by then.
  static Result<FolderLock> take(const std::filesystem::path& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::unique_lock<std::mutex> threads, int folder);

  std::unique_lock<std::mutex> threads_;
  int folder_;  // the descriptor that is locked, or -1
};

}  // namespace encore::gpu
