#include "engine_rig.h"

#include <cmath>

namespace encore::fake {

Rig::Rig(const RigOptions& options) {
  GraphsOptions graphs_options = options.graphs;
  graphs_options.capture.limits = options.limits;
  kv = std::move(model.create_kv(options.kv)).value();
  auto graphs = capture_graphs(model, *kv, graphs_options);
  EXPECT_TRUE(graphs.ok()) << graphs.status().to_string();
  EngineOptions engine_options;
  engine_options.limits = options.limits;
  engine_options.num_valid_tokens = kNumValidTokens;
  engine_options.end_tokens = options.end_tokens;
  engine_options.dispatch = options.dispatch;
  engine_options.submit_ahead = options.submit_ahead;
  engine_options.prefix_cache = options.prefix_cache;
  engine_options.guard_check_interval = options.guard_check_interval;
  engine_options.log = [this](LogLevel, std::string_view line) { log.emplace_back(line); };
  if (options.text) engine_options.make_text = [] { return std::make_unique<FakeText>(); };
  auto made = Engine::create(model, *kv, std::move(graphs).value(), std::move(engine_options));
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  engine = std::move(made).value();
}

bool Rig::step() {
  auto more = engine->step(events);
  for (const RequestEvent& event : events) {
    Reply& reply = replies[event.request];
    EXPECT_EQ(reply.num_finishes, 0) << "an event after the last one";
    if (event.token >= 0) reply.tokens.push_back(event.token);
    reply.text += event.text;
    if (event.finished()) {
      reply.finish = event.finish;
      ++reply.num_finishes;
    }
    EXPECT_EQ(event.output_tokens, std::ssize(reply.tokens));
    reply.last = event;
  }
  last_status = more.ok() ? Status() : more.status();
  return more.ok() && *more;
}

std::vector<int32_t> expected_tokens(const RequestOptions& options, int32_t max_output,
                                     std::vector<int32_t> stop_tokens) {
  const SamplingParams& sampling = options.sampling;
  if (options.ignore_eos) stop_tokens.clear();
  stop_tokens.insert(stop_tokens.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  std::vector<int32_t> tokens = options.prompt;
  std::vector<int32_t> output;
  RowSampling row;
  row.temperature = sampling.temperature;
  row.repetition_penalty = sampling.repetition_penalty;
  row.presence_penalty = sampling.presence_penalty;
  row.frequency_penalty = sampling.frequency_penalty;
  row.seed = sampling.seed;
  while (std::ssize(output) < max_output) {
    std::vector<double> logits = logits_after(tokens);
    std::map<int32_t, Counts> counts;
    for (const int32_t token : options.prompt) ++counts[token].in_prompt;
    for (const int32_t token : output) ++counts[token].in_output;
    penalise(logits, row, counts);
    for (const TokenBias& bias : sampling.logit_bias) logits[bias.token] += bias.bias;
    if (std::ssize(output) < sampling.min_tokens) {
      for (const int32_t token : stop_tokens) logits[token] = -INFINITY;
    }
    row.position = std::ssize(tokens);
    const int32_t token = pick(logits, row, kNumValidTokens);
    tokens.push_back(token);
    output.push_back(token);
    if (std::count(stop_tokens.begin(), stop_tokens.end(), token) > 0) break;
  }
  return output;
}

std::vector<int32_t> make_prompt(int32_t size, int32_t salt) {
  std::vector<int32_t> prompt(size);
  for (int32_t i = 0; i < size; ++i) {
    prompt[i] = static_cast<int32_t>(mix(static_cast<uint64_t>(salt) * 1000 + i) % 63);
  }
  return prompt;
}

RequestOptions varied_request(int32_t salt, int32_t max_prompt, int32_t max_reply) {
  RequestOptions options;
  const auto draw = [&](int32_t what, int32_t range) {
    return static_cast<int32_t>(mix(static_cast<uint64_t>(salt) * 64 + what) % range);
  };
  options.prompt = make_prompt(1 + draw(1, max_prompt), salt);
  options.max_tokens = 1 + draw(2, max_reply);
  options.ignore_eos = draw(3, 2) == 0;
  options.sampling.temperature = draw(4, 3) == 0 ? 0.0F : 0.3F * static_cast<float>(draw(5, 5));
  options.sampling.seed = static_cast<uint64_t>(salt) * 7919;
  if (draw(6, 3) == 0) options.sampling.repetition_penalty = 1.3F;
  if (draw(7, 3) == 0) options.sampling.frequency_penalty = 0.4F;
  if (draw(8, 3) == 0) options.sampling.presence_penalty = 0.7F;
  if (draw(9, 4) == 0) options.sampling.logit_bias = {{draw(10, 64), 3.0F}};
  if (draw(11, 4) == 0) options.sampling.min_tokens = 1 + draw(12, options.max_tokens);
  return options;
}

}  // namespace encore::fake
