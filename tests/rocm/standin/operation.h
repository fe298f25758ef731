// What a stream holds: something that a device does.
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

namespace encore::standin {

using Stream = ihipStream_t;

class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  virtual std::string what() const = 0;
  virtual hipGraphNodeType type() const = 0;
  // Whether it can run now. If not, adds the streams that may have to get on first.
  virtual bool ready(std::vector<Stream*>&) { return true; }
  // An error loses the device.
  virtual hipError_t run() = 0;
  // What a launch of a graph puts into its stream: null for the operation itself, which then keeps
  // no state of one run.
  virtual std::shared_ptr<Operation> for_launch() const { return nullptr; }
};

// That an operation has run, or will never.
struct Completion {
  bool done = false;
  double milliseconds = 0.0;  // when; since some time
  Stream* stream = nullptr;   // in which it was enqueued
  int polls = 0;              // how often somebody has asked
};

// Waits for another operation.
class WaitOperation final : public Operation {
 public:
  explicit WaitOperation(std::shared_ptr<Completion> awaited) : awaited_(std::move(awaited)) {}
  std::string what() const override { return "a wait for an event"; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeWaitEvent; }
  bool ready(std::vector<Stream*>& others) override {
    if (!awaited_->done) others.push_back(awaited_->stream);
    return awaited_->done;
  }
  hipError_t run() override { return hipSuccess; }

 private:
  std::shared_ptr<Completion> awaited_;
};

// A place in a stream: an event.
class MarkOperation final : public Operation {
 public:
  std::string what() const override { return "an event"; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeEventRecord; }
  hipError_t run() override { return hipSuccess; }
};

}  // namespace encore::standin
