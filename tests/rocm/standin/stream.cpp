#include "stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <utility>

#include "device.h"
#include "faults.h"

namespace encore::standin {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(20);

std::condition_variable& news() {
  static auto& news = *new std::condition_variable;
  return news;
}

Stream& null_stream(int device) {
  static auto& null_streams = *new std::map<int, Stream>;
  Stream& stream = null_streams[device];
  stream.device = device;
  return stream;
}

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void append(Stream& stream, std::shared_ptr<Operation> operation) {
  auto completion = std::make_shared<Completion>();
  completion->stream = &stream;
  stream.queue.push_back({std::move(operation), std::move(completion)});
}

// The null stream and blocking streams of a device wait for each other.
void wait_for_others(Stream& stream) {
  if (!stream.blocking) return;
  Stream& null = null_stream(stream.device);
  const auto wait_for = [&](const Stream& other) {
    if (other.queue.empty()) return;
    append(stream, std::make_shared<WaitOperation>(other.queue.back().completion));
  };
  if (&stream != &null) return wait_for(null);
  streams().each([&](Stream& other) {
    if (other.device == stream.device && other.blocking) wait_for(other);
  });
}

void run_first(Stream& stream) {
  const Stream::Entry entry = stream.queue.front();  // lives on, whatever happens to the queue
  auto error = static_cast<hipError_t>(next_failure("operation"));
  if (error == hipSuccess) error = entry.operation->run();
  if (error != hipSuccess) return lose_device(stream.device, error);
  stream.queue.pop_front();
  entry.completion->done = true;
  entry.completion->milliseconds = now_ms();
}

// `path`: the streams that wait for this one.
bool advance_from(Stream& stream, std::vector<Stream*>& path) {
  if (stream.queue.empty() || std::find(path.begin(), path.end(), &stream) != path.end()) {
    return false;
  }
  std::vector<Stream*> others;
  if (!stream.queue.front().operation->ready(others)) {
    path.push_back(&stream);
    const bool progress = std::any_of(others.begin(), others.end(),
                                      [&](Stream* other) { return advance_from(*other, path); });
    path.pop_back();
    return progress;
  }
  run_first(stream);
  return true;
}

}  // namespace

Handles<Stream>& streams() {
  static auto& streams = *new Handles<Stream>;
  return streams;
}

Stream* find_stream(hipStream_t handle) {
  if (handle == nullptr) return &null_stream(current_device());
  return streams().has(handle) ? handle : nullptr;
}

std::shared_ptr<Completion> push(Stream& stream, std::shared_ptr<Operation> operation) {
  wait_for_others(stream);
  append(stream, std::move(operation));
  notify();
  return stream.queue.back().completion;
}

bool advance(Stream& stream) {
  std::vector<Stream*> path;
  return advance_from(stream, path);
}

bool poll(Completion& awaited) {
  constexpr int kMaxDoublings = 20;
  const int operations = 1 << std::min(awaited.polls++, kMaxDoublings);
  for (int i = 0; i < operations && !awaited.done; ++i) {
    if (!advance(*awaited.stream)) break;
  }
  return awaited.done;
}

void run_until(Lock& lock, Stream& stream, const std::function<bool()>& done) {
  while (!done()) {
    if (!advance(stream)) news().wait_for(lock, kPatience);
  }
}

void drain(Lock& lock, Stream& stream) {
  if (stream.queue.empty()) return;
  const auto last = stream.queue.back().completion;
  run_until(lock, stream, [&] { return last->done; });
}

void drain_device(Lock& lock, int device) {
  for (Stream* stream : streams_of(device)) drain(lock, *stream);
}

std::vector<Stream*> streams_of(int device) {
  std::vector<Stream*> result{&null_stream(device)};
  streams().each([&](Stream& stream) {
    if (stream.device == device) result.push_back(&stream);
  });
  return result;
}

void lose_device(int device, hipError_t error) {
  lose(device, error);
  for (Stream* stream : streams_of(device)) {
    for (const Stream::Entry& entry : std::exchange(stream->queue, {})) {
      entry.completion->done = true;
    }
  }
  notify();
}

void notify() { news().notify_all(); }

}  // namespace encore::standin
