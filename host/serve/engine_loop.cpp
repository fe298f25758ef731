#include "serve/engine_loop.h"

#include <utility>

namespace encore {

EngineLoop::EngineLoop(Engine& engine, EventSink sink) : engine_(engine), sink_(std::move(sink)) {}

Status EngineLoop::run() {
  std::vector<RequestEvent> events;
  while (await_work()) {
    const Result<bool> stepped = engine_.step(events);
    if (!events.empty()) sink_(events);
    if (!stepped.ok()) return stepped.status();
    if (*stepped) note_work();
  }
  return {};
}

// Takes the flag before the step, so that whatever is added during it is seen after it.
bool EngineLoop::await_work() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return has_work_ || stopping_; });
  has_work_ = false;
  return !stopping_;
}

void EngineLoop::note_work() {
  const std::lock_guard lock(mutex_);
  has_work_ = true;
}

Result<std::vector<RequestId>> EngineLoop::add(std::vector<RequestOptions> requests) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<RequestId> ids, engine_.add_all(std::move(requests)));
  note_work();
  wake_.notify_one();
  return ids;
}

void EngineLoop::cancel(RequestId id) {
  // The engine steps as long as the request lives, so there is nobody to wake. If it has just
  // ended, its last event is on the way: as good.
  if (const Status status = engine_.cancel(id); !status.ok()) return;
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
}

}  // namespace encore
