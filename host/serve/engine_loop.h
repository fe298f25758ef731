// The thread that steps the engine, and how requests get to it and events from it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "encore/status.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace encore {

// Hears of every step that brought something, on the engine's thread. It may move from `events`,
// and must neither block nor throw: the device waits meanwhile.
using EventSink = std::function<void(std::vector<RequestEvent>& events)>;

// add(), cancel() and stop() by any thread; run() by one, once. Borrows the engine.
class EngineLoop {
 public:
  EngineLoop(Engine& engine, EventSink sink);

  // Steps while there is work and sleeps while there is none, until stop().
  // Errors: the engine's own; the sink has then had an end of every request.
  Status run();

  // Engine::add_all, and wakes the loop. Events of the new requests may reach the sink before this
  // returns: the sink must hand over to the thread that adds.
  Result<std::vector<RequestId>> add(std::vector<RequestOptions> requests);

  // Engine::cancel; one that has ended already is no error.
  void cancel(RequestId id);

  // run() returns after the step under way. Requests that are left get no more events.
  void stop();

 private:
  // Sleeps until there is work; false if it was told to stop.
  bool await_work();
  void note_work();

  Engine& engine_;
  EventSink sink_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool has_work_ = false;
  bool stopping_ = false;
};

}  // namespace encore
