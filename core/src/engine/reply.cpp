#include "engine/reply.h"

#include <algorithm>

namespace encore {
namespace {

// Passes text on to `certain`. Returns whether it completes a stop string that may end the reply.
bool push_text(RequestState& request, const std::string& text, std::string& certain) {
  if (request.num_output() < request.min_output) {
    certain.append(text);
    return false;
  }
  return request.stops.push(text, certain);
}

}  // namespace

void finish_text(RequestState& request, std::string& certain) {
  if (request.text == nullptr) return;
  if (!push_text(request, request.text->finish(), certain)) request.stops.finish(certain);
}

void accept_token(RequestState& request, int32_t token, RequestEvent& event) {
  const bool may_stop = request.num_output() >= request.min_output;
  request.tokens.push_back(token);
  if (request.penalised) request.history.add_output(token);
  event.token = token;
  if (may_stop &&
      std::binary_search(request.stop_tokens.begin(), request.stop_tokens.end(), token)) {
    request.finish = FinishReason::kStop;
    finish_text(request, event.text);
  } else if (request.text != nullptr && push_text(request, request.text->push(token), event.text)) {
    request.finish = FinishReason::kStop;
  } else if (request.num_output() >= request.max_output) {
    request.finish = FinishReason::kLength;
    finish_text(request, event.text);
  }
  event.finish = request.finish;
}

void fill_logprobs(const RequestState& request, const StepOutput& output, int32_t row,
                   RequestEvent& event) {
  const int32_t wanted = request.row.num_logprobs;
  if (wanted < 0 || output.logprobs.empty()) return;
  event.has_logprob = true;
  event.logprob = output.logprobs[row];
  const size_t first = static_cast<size_t>(row) * output.top_logprobs_width;
  for (int32_t i = 0; i < std::min(wanted, output.top_logprobs_width); ++i) {
    const int32_t token = output.top_tokens[first + i];
    if (token < 0) break;
    event.top_logprobs.push_back({token, output.top_logprobs[first + i]});
  }
}

void describe(const RequestState& request, RequestEvent& event) {
  event.request = request.id;
  event.finish = request.finish;
  event.prompt_tokens = request.prompt_size;
  event.cached_tokens = request.cached_tokens;
  event.output_tokens = request.num_output();
  event.num_preemptions = request.num_preemptions;
  event.timings = request.timings;
}

}  // namespace encore
