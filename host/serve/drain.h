// The end of a server's requests.
#pragma once

#include <chrono>

#include "serve/model_server.h"

namespace encore {

struct DrainLimits {
  std::chrono::milliseconds own_end;  // for requests in progress to end by themselves
  // For cancelled ones to have their ends, which come with the engine's next step: as long as the
  // one under way may take.
  std::chrono::milliseconds cancelled_end;
};

// Takes no new requests, waits for those in progress and cancels what is left. Returns once every
// answer has been handed to the HTTP server, or false if that takes too long. The loop runs
// meanwhile. Once; by any thread but the server's and the loop's.
bool drain_requests(ModelServer& server, const DrainLimits& limits);

}  // namespace encore
