// The engine's door: checks a request and makes its state.
#pragma once

#include <cstdint>
#include <memory>

#include "encore/backend.h"
#include "encore/status.h"
#include "engine/engine.h"
#include "engine/request_state.h"

namespace encore {

// Tokens of prompt and reply that one request may have. The last token of a reply needs no place in
// the KV cache.
int32_t request_token_limit(const RunnerLimits& limits, const KvInfo& kv);

// Errors: as Engine::add. Any thread.
Result<std::unique_ptr<RequestState>> make_request(RequestOptions options,
                                                   const EngineOptions& engine, const KvInfo& kv);

}  // namespace encore
