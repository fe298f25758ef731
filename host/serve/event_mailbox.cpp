#include "serve/event_mailbox.h"

#include <iterator>
#include <utility>

namespace encore {

EventMailbox::EventMailbox(std::function<void()> notify) : notify_(std::move(notify)) {}

void EventMailbox::put(std::vector<RequestEvent>& events) {
  if (events.empty()) return;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = events_.empty();
    if (first) {
      std::swap(events_, events);  // both keep their memory
    } else {
      events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                     std::make_move_iterator(events.end()));
    }
  }
  events.clear();
  if (first) notify_();
}

void EventMailbox::take(std::vector<RequestEvent>& events) {
  events.clear();
  const std::lock_guard lock(mutex_);
  std::swap(events_, events);
}

}  // namespace encore
