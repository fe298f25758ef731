// What the server serves, once it is loaded.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/engine.h"
#include "openai/generation_request.h"
#include "openai/reply_writer.h"
#include "serve/engine_loop.h"
#include "serve/request_options.h"
#include "serve/text_service.h"

namespace encore {

// Pointers are borrowed and outlive the server's use of them.
struct ServedModel {
  ModelCard card;
  const TextService* text = nullptr;
  Engine* engine = nullptr;
  EngineLoop* loop = nullptr;
  ApiLimits limits;
  int32_t max_running_requests = 0;
  int32_t page_size = 0;  // of the KV cache, in tokens
  // What applies where a request says nothing; the seed is a fresh one each time, unless it is
  // configured. Called by the server's thread.
  std::function<RequestDefaults()> defaults;
};

}  // namespace encore
