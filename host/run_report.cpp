#include "run_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "capture_table.h"
#include "process_info.h"
#include "report_json.h"
#include "text_table.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double ms(int64_t us) { return static_cast<double>(us) / 1000.0; }

Json reply_json(const Reply& reply, const std::vector<int32_t>& prompt, uint64_t seed) {
  Json json;
  json["prompt_tokens"] = prompt;
  json["tokens"] = reply.tokens;
  json["text"] = reply.text;
  json["finish_reason"] = finish_reason_name(reply.finish);
  if (!reply.message.empty()) json["message"] = reply.message;
  json["seed"] = seed;
  if (!reply.logprobs.empty()) {
    Json all = Json::array();
    for (size_t i = 0; i < reply.logprobs.size(); ++i) {
      Json top = Json::array();
      for (const TokenLogprob& entry : reply.top_logprobs[i]) {
        top.push_back({{"token", entry.token}, {"logprob", number(entry.logprob)}});
      }
      all.push_back({{"logprob", number(reply.logprobs[i])}, {"top", top}});
    }
    json["logprobs"] = all;
  }
  json["preemptions"] = reply.num_preemptions;
  json["timings_us"] = {{"scheduled", reply.timings.scheduled_us},
                        {"first_token", reply.timings.first_token_us},
                        {"last_token", reply.timings.last_token_us}};
  return json;
}

Json memory_json(Session& session) {
  const Result<MemoryLedger> ledger = session.ledger();
  Json json = ledger.ok() ? ledger_json(*ledger) : Json{{"error", ledger.status().message()}};
  json["kv_dtype"] = dtype_name(session.kv().info().dtype);
  json["capture_bytes"] = session.capture_summary().memory_bytes();
  json["peak_resident_bytes"] = peak_resident_bytes();
  return json;
}

}  // namespace

std::string timings_table(Session& session, const Generation& generation) {
  const SessionTimings& timings = session.timings();
  const Speed speed = measure_speed(generation.replies);
  int64_t prompt_tokens = 0;
  size_t tokens = 0;
  for (const Reply& reply : generation.replies) {
    prompt_tokens += reply.prompt_tokens;
    tokens += reply.tokens.size();
  }
  const DispatchStats dispatch = session.engine().stats().dispatch;
  TextTable table({"timing", "value", "of"});
  table.add_row({"load", format_us(static_cast<double>(timings.load_us)),
                 format_bytes(static_cast<double>(session.model().info().weight_bytes))});
  table.add_row({"capture", format_us(static_cast<double>(timings.capture_us)),
                 describe_capture(session.capture_summary())});
  table.add_row(
      {"time to first token", format_us(static_cast<double>(speed.time_to_first_token_us)), ""});
  table.add_row({"prompt", format_number(speed.prompt_tokens_per_s, 1) + " tokens/s",
                 std::to_string(prompt_tokens) + " tokens"});
  table.add_row({"generation", format_number(speed.generation_tokens_per_s, 1) + " tokens/s",
                 std::to_string(tokens) + " tokens"});
  table.add_row({"steps", std::to_string(dispatch.graph_replays) + " replays",
                 std::to_string(dispatch.eager_fallbacks) + " fallbacks, " +
                     std::to_string(dispatch.eager_samples) + " samples of eager"});
  table.add_row({"peak memory", format_bytes(static_cast<double>(peak_resident_bytes())), ""});
  return table.text();
}

std::string run_json(Session& session, const Generation& generation,
                     const std::vector<std::vector<int32_t>>& prompts,
                     const std::vector<uint64_t>& seeds) {
  Json json;
  json["model"] = session.config().model.path;
  json["backend"] = session.config().backend.name;
  json["interrupted"] = generation.was_interrupted;
  Json requests = Json::array();
  for (size_t i = 0; i < generation.replies.size(); ++i) {
    requests.push_back(reply_json(generation.replies[i], prompts[i], seeds[i]));
  }
  json["requests"] = requests;
  const SessionTimings& timings = session.timings();
  const Speed speed = measure_speed(generation.replies);
  json["timings"] = {{"backend_ms", ms(timings.backend_us)},
                     {"files_ms", ms(timings.files_us)},
                     {"tokenizer_ms", ms(timings.tokenizer_us)},
                     {"load_ms", ms(timings.load_us)},
                     {"capture_ms", ms(timings.capture_us)},
                     {"open_ms", ms(timings.total_us)},
                     {"time_to_first_token_ms", ms(speed.time_to_first_token_us)},
                     {"prompt_tokens_per_s", number(speed.prompt_tokens_per_s)},
                     {"generation_tokens_per_s", number(speed.generation_tokens_per_s)}};
  const EngineStats stats = session.engine().stats();
  json["steps"] = {{"total", stats.num_steps},
                   {"ahead", stats.steps_ahead},
                   {"preemptions", stats.num_preemptions}};
  json["graphs"] = dispatch_json(stats.dispatch);
  json["capture"] = {{"prefill_mode", prefill_mode_name(session.capture_summary().prefill_mode)},
                     {"prefill_buckets", buckets_json(session.capture_summary().prefill)},
                     {"decode_buckets", buckets_json(session.capture_summary().decode)}};
  json["memory"] = memory_json(session);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace encore
