// Events on their way from the engine's thread to the server's.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace encore {

// put() by one thread, take() by another. However many steps pass before take(), `notify` is called
// once: a server that is behind gets more events at a time instead of more work.
class EventMailbox {
 public:
  // `notify` makes the other thread call take(); it is called by the thread that puts.
  explicit EventMailbox(std::function<void()> notify);

  // Empties `events`.
  void put(std::vector<RequestEvent>& events);

  // Replaces `events` by all that was put, in order.
  void take(std::vector<RequestEvent>& events);

 private:
  std::function<void()> notify_;
  std::mutex mutex_;
  std::vector<RequestEvent> events_;
};

}  // namespace encore
