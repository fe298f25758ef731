// A server in the middle of its work, for tests.
#pragma once

#include "engine/request.h"
#include "metrics/server_metrics.h"

namespace encore {

// Every field has a value of its own.
MetricsSnapshot sample_snapshot();

// Token `number` (from 1) of `request`, `now_us` after its arrival. It was scheduled at 10 ms and
// had its first token at `first_us`.
RequestEvent token_event(RequestId request, int32_t number, int64_t first_us, int64_t now_us,
                         FinishReason finish = FinishReason::kNone);

// An end without a token, such as a cancelled request's.
RequestEvent end_event(RequestId request, FinishReason finish);

}  // namespace encore
