// Ties HTTP, OpenAI's API and the engine together: which path does what, and who is told of what.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "encore/config.h"
#include "http/http_server.h"
#include "serve/engine_loop.h"
#include "serve/served_model.h"

namespace encore {

// Answers requests from the moment the port is bound: 503 for anything that needs the model until
// set_model(), then the API, then 503 again once drain() was called or the engine has failed.
//
// Everything runs on the HTTP server's thread but encode (a few worker threads) and step (the
// engine's thread): an event goes from step to client by EngineLoop's sink, one post() a step, and
// ReplyStream.
//
// Borrows the HTTP server, which must have stopped before this is destroyed.
class ModelServer {
 public:
  // `config` as load_api_keys and served_model_name have completed it. `page` is what / answers
  // with, and stays valid; empty: there is none.
  ModelServer(HttpServer& http, const ServerConfig& config, std::string_view page);
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  HttpHandler handler();
  // Refuses what the handler would refuse without looking at the body.
  HttpHeadCheck head_check();

  // The sink for the EngineLoop.
  EventSink event_sink();

  // From now on requests are served. Any thread, once.
  void set_model(const ServedModel& model);

  // No new requests from now on; /ready and everything that needs the model say 503. `drained` is
  // called on the server's thread when the last one has ended. Any thread, once.
  void drain(std::function<void()> drained);
  // Cancels what is still running. Any thread.
  void cancel_all();

  // The engine has failed and has ended its requests: the same, and /health says 503. Any thread.
  void fail(const Status& status);

  // Requests whose answers are not complete. Any thread.
  int64_t requests_in_progress() const;

  // Waits, so long, for workers that still encode for nobody. Returns whether they have ended. Any
  // thread, after the HTTP server has stopped.
  bool end_preparations(std::chrono::milliseconds time);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace encore
