#include "generate.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "interrupt.h"

namespace encore {
namespace {

void take_event(RequestEvent& event, Reply& reply) {
  if (event.token >= 0) reply.tokens.push_back(event.token);
  reply.text += event.text;
  if (event.has_logprob) {
    reply.logprobs.push_back(event.logprob);
    reply.top_logprobs.push_back(std::move(event.top_logprobs));
  }
  reply.prompt_tokens = event.prompt_tokens;
  reply.num_preemptions = event.num_preemptions;
  reply.timings = event.timings;
  if (!event.finished()) return;
  reply.finish = event.finish;
  reply.message = event.message;
}

}  // namespace

Result<Generation> generate(Engine& engine, std::vector<RequestOptions> requests,
                            const GenerationSink& sink) {
  Generation generation;
  std::unordered_map<RequestId, size_t> index_of;
  for (RequestOptions& request : requests) {
    ENCORE_ASSIGN_OR_RETURN(const RequestId id, engine.add(std::move(request)));
    index_of[id] = generation.replies.size();
    generation.replies.emplace_back();
  }
  std::vector<RequestEvent> events;
  for (bool more = !generation.replies.empty(); more;) {
    if (interrupted() && !generation.was_interrupted) {
      generation.was_interrupted = true;
      for (const auto& [id, index] : index_of) {
        if (generation.replies[index].finish != FinishReason::kNone) continue;
        // It may just have ended, which is as good.
        if (const Status status = engine.cancel(id); !status.ok()) continue;
      }
    }
    const Result<bool> stepped = engine.step(events);
    for (RequestEvent& event : events) {
      const auto found = index_of.find(event.request);
      if (found == index_of.end()) continue;
      const size_t index = found->second;
      const bool ended = event.finished();
      if (sink.text && !event.text.empty()) sink.text(index, event.text);
      take_event(event, generation.replies[index]);
      if (ended && sink.finished) sink.finished(index);
    }
    if (!stepped.ok()) generation.engine_status = stepped.status();
    more = stepped.ok() && *stepped;
  }
  return generation;
}

Speed measure_speed(const std::vector<Reply>& replies) {
  int64_t prompt_tokens = 0;
  int64_t generated_after_first = 0;
  int64_t first_us = -1;
  int64_t last_first_us = -1;
  int64_t last_us = -1;
  for (const Reply& reply : replies) {
    if (reply.timings.first_token_us < 0) continue;
    prompt_tokens += reply.prompt_tokens;
    generated_after_first += std::max<int64_t>(static_cast<int64_t>(reply.tokens.size()) - 1, 0);
    const int64_t first = reply.timings.first_token_us;
    first_us = first_us < 0 ? first : std::min(first_us, first);
    last_first_us = std::max(last_first_us, first);
    last_us = std::max(last_us, reply.timings.last_token_us);
  }
  Speed speed;
  speed.time_to_first_token_us = first_us;
  if (last_first_us > 0) {
    speed.prompt_tokens_per_s =
        static_cast<double>(prompt_tokens) * 1e6 / static_cast<double>(last_first_us);
  }
  if (last_us > first_us && first_us >= 0) {
    speed.generation_tokens_per_s =
        static_cast<double>(generated_after_first) * 1e6 / static_cast<double>(last_us - first_us);
  }
  return speed;
}

}  // namespace encore
