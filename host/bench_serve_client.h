// An HTTP/1.1 client for load: many requests at once on one thread, answers as they arrive.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bench_serve_url.h"
#include "encore/status.h"

namespace encore {

// What becomes of one request, in this order: head at most once, data any number of times, end
// once.
struct AnswerHandlers {
  std::function<void(int32_t http_status)> head;
  std::function<void(std::string_view bytes)> data;
  // `broken`: why the answer is incomplete; empty if it is complete.
  std::function<void(const std::string& broken)> end;
};

struct HttpAnswer {
  int32_t status = 0;
  std::string body;
};

// Everything happens on the thread that calls run_until() and fetch(). Connections are kept and
// used again. Destroying it drops what is under way without a word.
class LoadClient {
 public:
  using Clock = std::chrono::steady_clock;

  // silence_limit: how long a connection may bring nothing before its request counts as broken.
  // Errors: kUnavailable if the host's name cannot be resolved.
  static Result<std::unique_ptr<LoadClient>> open(const ServerUrl& url, const std::string& api_key,
                                                  std::chrono::seconds silence_limit);

  virtual ~LoadClient() = default;

  // Starts a POST of JSON to the URL's path followed by `path`.
  virtual void post(const std::string& path, std::string body, AnswerHandlers handlers) = 0;

  // Runs `work` at `when`, or at once if that has passed.
  virtual void call_at(Clock::time_point when, std::function<void()> work) = 0;

  // Lets things happen until `done` says so, or the time has come.
  virtual void run_until(const std::function<bool()>& done, Clock::time_point when) = 0;

  // A whole request and answer; a GET if there is no body.
  // Errors: kUnavailable naming the server if there is no answer.
  virtual Result<HttpAnswer> fetch(const std::string& path, std::string body) = 0;
};

}  // namespace encore
