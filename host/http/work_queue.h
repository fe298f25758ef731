// Functions handed to the server's thread.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace encore {

// push() and close() by any thread, run() by one.
class WorkQueue {
 public:
  // True if the queue was empty: run() must be called then. After close() `work` is dropped.
  bool push(std::function<void()> work);

  // Runs what is there, in order. What is pushed meanwhile waits for the next run.
  void run();

  // Drops what is there and what comes, on the calling thread.
  void close();

 private:
  bool closed() const;

  mutable std::mutex mutex_;
  std::vector<std::function<void()>> works_;
  bool closed_ = false;
};

}  // namespace encore
