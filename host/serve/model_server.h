// Ties HTTP, OpenAI's API and the engine together: which path does what, and who is told of what.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "encore/config.h"
#include "engine/engine.h"
#include "http/http_server.h"
#include "metrics/server_metrics.h"
#include "openai/generation_request.h"
#include "openai/reply_writer.h"
#include "serve/engine_loop.h"
#include "serve/text_service.h"

namespace encore {

// What the server serves, once it is loaded. Borrowed: outlives the server's use of it.
struct ServedModel {
  ModelCard card;
  const TextService* text = nullptr;
  Engine* engine = nullptr;
  EngineLoop* loop = nullptr;
  ApiLimits limits;
  int32_t max_running_requests = 0;
  // Defaults of a request, with a fresh seed each time it is called.
  std::function<SamplingParams()> sampling_defaults;
  int32_t default_max_tokens = -1;  // of /v1/completions if the request has none (OpenAI: 16)
};

// Answers requests from the moment the port is bound: 503 for anything that needs the model until
// set_model(), then the API, then 503 again once drain() was called.
//
// Everything runs on the HTTP server's thread but encode (a few worker threads) and step (the
// engine's thread): an event goes from step to client by EngineLoop's sink, one post() a step, and
// ReplyStream.
class ModelServer {
 public:
  ModelServer(HttpServer& http, const ServerConfig& config);
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  HttpHandler handler();

  // The sink for the EngineLoop.
  EventSink event_sink();

  // From now on requests are served. Any thread, once.
  void set_model(const ServedModel& model);

  // No new requests from now on; /ready and everything that needs the model say 503. `drained` is
  // called on the server's thread when the last one has ended. Any thread.
  void drain(std::function<void()> drained);
  // Cancels what is still running.
  void cancel_all();

  int64_t requests_in_progress() const;  // any thread

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace encore
