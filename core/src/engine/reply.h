// What a newly sampled token means for a reply: its text, and whether it ends it.
#pragma once

#include <cstdint>
#include <string>

#include "encore/forward_batch.h"
#include "engine/request.h"
#include "engine/request_state.h"

namespace encore {

// Appends the token to the request's reply and fills `event`'s token, text and finish reason.
// A finished request's `finish` is set. REQUIRES: the request is not finished.
void accept_token(RequestState& request, int32_t token, RequestEvent& event);

// The end of a reply's text: appends to `certain` what the detokenizer and the stop matcher still
// hold back.
void finish_text(RequestState& request, std::string& certain);

// Fills `event`'s log-probabilities from row `row` of `output`, as far as the request wants them.
void fill_logprobs(const RequestState& request, const StepOutput& output, int32_t row,
                   RequestEvent& event);

// An event of the request as it now stands, with nothing new in it.
void describe(const RequestState& request, RequestEvent& event);

}  // namespace encore
