// Streams, and running what they hold.
//
// Nothing runs by itself: operations run when somebody waits for them, in the thread that waits,
// one at a time in the process.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "handles.h"
#include "operation.h"

namespace encore::standin {
struct Capture;
}

struct ihipStream_t {
  struct Entry {
    std::shared_ptr<encore::standin::Operation> operation;
    std::shared_ptr<encore::standin::Completion> completion;
  };

  int device = 0;
  bool blocking = true;  // with the device's null stream
  std::deque<Entry> queue;
  std::shared_ptr<encore::standin::Capture> capture;  // null: none
  std::vector<hipGraphNode_t> tail;  // in a capture: what the next operation comes after
};

namespace encore::standin {

using Lock = std::unique_lock<std::mutex>;

Handles<Stream>& streams();

// The stream of a handle: null means the current device's null stream. Null if there is none.
Stream* find_stream(hipStream_t handle);

// Enqueues; whoever waits is told.
std::shared_ptr<Completion> push(Stream& stream, std::shared_ptr<Operation> operation);

// Runs the first operation of the stream, or one that it waits for. False if none can run now.
bool advance(Stream& stream);

// What a poll does: the first runs one operation, and each further one twice as many as that
// before, as long as any can run and the awaited one has not. Whether that has.
bool poll(Completion& awaited);

// Runs operations of the stream and those that it waits for until done(); lets other threads
// enqueue what is missing.
void run_until(Lock& lock, Stream& stream, const std::function<bool()>& done);
void drain(Lock& lock, Stream& stream);
void drain_device(Lock& lock, int device);

// All streams of the device, its null stream among them.
std::vector<Stream*> streams_of(int device);

// From now on the device returns `error`; what its streams hold is dropped.
void lose_device(int device, hipError_t error);

// Something happened that a waiting thread may wait for.
void notify();

}  // namespace encore::standin
