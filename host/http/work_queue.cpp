#include "http/work_queue.h"

#include <utility>

namespace encore {

bool WorkQueue::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  works_.push_back(std::move(work));
  return works_.size() == 1;
}

bool WorkQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void WorkQueue::run() {
  std::vector<std::function<void()>> works;
  {
    const std::lock_guard lock(mutex_);
    works.swap(works_);
  }
  for (auto& work : works) {
    if (closed()) return;
    work();
    work = nullptr;
  }
}

void WorkQueue::close() {
  std::vector<std::function<void()>> works;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    works.swap(works_);
  }
}

}  // namespace encore
