// Rules R on what is computed. Only the first two and the last compare with the reference; the
// others compare two models of the plugin's own that must agree, so that they fail for what they
// are about and for nothing else.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 40;
constexpr int32_t kLongPrompt = 300;  // more than one split of attention's work in any backend

// Logits after whole prompts of several lengths, each in one eager step.
Result<std::vector<std::vector<float>>> prompt_logits(Subject& subject) {
  std::vector<std::vector<float>> rows;
  uint64_t seed = 20;
  for (const int32_t length : {2, 15, 17, kPromptLength}) {
    Request request = make_request(random_tokens(seed++, length, subject.vocab_size()));
    ENCORE_ASSIGN_OR_RETURN(std::vector<float> logits,
                            run_to(subject, subject.eager(), request, length));
    rows.push_back(std::move(logits));
    subject.driver->finish(request);
  }
  return rows;
}

Status check_prompts(Subject& subject, const std::string& what) {
  const ReferenceModel reference = subject.reference();
  uint64_t seed = 20;
  for (const int32_t length : {1, 2, 15, 17, kPromptLength}) {
    Request request = make_request(random_tokens(seed++, length, subject.vocab_size()));
    ENCORE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                            run_to(subject, subject.eager(), request, length));
    ENCORE_RETURN_IF_ERROR(same_logits(logits, reference.last_logits(request.tokens), subject.limit,
                                       what + ", a prompt of " + std::to_string(length)));
    subject.driver->finish(request);
  }
  return {};
}

// Both models give the same logits for the same prompts.
Status check_same_model(const EqualityRun& run, const RandomModel& found,
                        const RandomModel& expected, const std::string& what) {
  ENCORE_ASSIGN_OR_RETURN(const auto first, make_subject(run, found, small_options()));
  ENCORE_ASSIGN_OR_RETURN(const auto found_rows, prompt_logits(*first));
  ENCORE_ASSIGN_OR_RETURN(const auto second, make_subject(run, expected, small_options()));
  ENCORE_ASSIGN_OR_RETURN(const auto expected_rows, prompt_logits(*second));
  // The limit is the sound model's: the other one's may have been measured too coarse.
  for (size_t i = 0; i < found_rows.size(); ++i) {
    ENCORE_RETURN_IF_ERROR(same_logits(found_rows[i], expected_rows[i], second->limit, what));
  }
  return {};
}

// Moves row 2i of each head to i, and row 2i + 1 to i + head_dim / 2: the half-split order of rows
// that were in adjacent pairs.
std::vector<float> half_split_rows(const std::vector<float>& rows, size_t num_heads,
                                   size_t head_dim, size_t width) {
  std::vector<float> moved(rows.size());
  for (size_t head = 0; head < num_heads; ++head) {
    for (size_t i = 0; i < head_dim; ++i) {
      const size_t target = i % 2 == 0 ? i / 2 : i / 2 + head_dim / 2;
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>((head * head_dim + i) * width), width,
                  moved.begin() + static_cast<std::ptrdiff_t>((head * head_dim + target) * width));
    }
  }
  return moved;
}

void scale_weight(MemoryWeights& weights, const std::string& name, float factor) {
  std::vector<float> values = weights.values(name);
  for (float& value : values) value *= factor;
  weights.set_values(name, values);
}

}  // namespace

Status eager_equals_reference(const EqualityRun& run) {
  for (const uint64_t seed : {1, 2}) {
    ENCORE_ASSIGN_OR_RETURN(
        const auto subject,
        make_subject(run, model_for(run, Family::kLlama, seed), small_options()));
    ENCORE_RETURN_IF_ERROR(check_prompts(*subject, "llama"));
  }
  return {};
}

Status families_equal_reference(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto base,
                          make_subject(run, model_for(run, Family::kLlama), small_options()));
  ENCORE_RETURN_IF_ERROR(needs_right_logits(*base));
  for (const Family family : {Family::kMistral, Family::kQwen2, Family::kQwen3}) {
    // Whether a tied head is right has a rule of its own.
    ModelOverrides untied;
    untied.tied_embeddings = false;
    ENCORE_ASSIGN_OR_RETURN(const auto subject,
                            make_subject(run, model_for(run, family, 1, untied), small_options()));
    ENCORE_RETURN_IF_ERROR(check_prompts(*subject, std::string(family_name(family))));
  }
  return {};
}

Status tied_head_is_the_embedding(const EqualityRun& run) {
  ModelOverrides overrides;
  overrides.tied_embeddings = true;
  const RandomModel tied = model_for(run, Family::kLlama, 1, overrides);
  overrides.tied_embeddings = false;
  const RandomModel untied = model_for(run, Family::kLlama, 1, overrides);
  untied.weights->set_values("head.weight", tied.weights->values("embed.weight"));
  return check_same_model(run, tied, untied, "a tied head against a copy of the embedding");
}

Status rope_styles_are_one_rotation(const EqualityRun& run) {
  ModelOverrides overrides;
  overrides.rope_style = RopeStyle::kAdjacentPairs;
  const RandomModel adjacent = model_for(run, Family::kLlama, 1, overrides);
  overrides.rope_style = RopeStyle::kHalfSplit;
  const RandomModel split = model_for(run, Family::kLlama, 1, overrides);
  const ModelSpec& spec = split.spec;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const char* part : {"q", "k"}) {
      const std::string name = "layers." + std::to_string(layer) + "." + part + ".weight";
      const int64_t heads = part[0] == 'q' ? spec.num_heads : spec.num_kv_heads;
      split.weights->set_values(
          name, half_split_rows(split.weights->values(name), static_cast<size_t>(heads),
                                static_cast<size_t>(spec.head_dim),
                                static_cast<size_t>(spec.hidden_size)));
    }
  }
  return check_same_model(run, adjacent, split,
                          "adjacent pairs against the same rows in half-split order");
}

Status rope_scale_multiplies_scores(const EqualityRun& run) {
  ModelOverrides overrides;
  overrides.attention_scale = 2.0F;  // a power of two: exact in every arithmetic
  const RandomModel scaled = model_for(run, Family::kLlama, 1, overrides);
  const RandomModel plain = model_for(run, Family::kLlama, 1);
  for (int64_t layer = 0; layer < plain.spec.num_layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    scale_weight(*plain.weights, prefix + ".q.weight", 2.0F);
    scale_weight(*plain.weights, prefix + ".k.weight", 2.0F);
  }
  return check_same_model(run, scaled, plain,
                          "a rope.attention_scale of 2 against doubled q and k weights");
}

Status long_prompts_equal_reference(const EqualityRun& run) {
  RunnerSetOptions options = small_options();
  options.capture.limits.max_tokens = kLongPrompt;
  options.capture.limits.max_context = kLongPrompt;
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_for(run, Family::kLlama), options));
  ENCORE_RETURN_IF_ERROR(needs_right_logits(*subject));
  Request request = make_request(random_tokens(31, kLongPrompt, subject->vocab_size()));
  ENCORE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                          run_to(*subject, subject->eager(), request, kLongPrompt));
  return same_logits(logits, subject->reference().last_logits(request.tokens), subject->limit,
                     "a prompt of " + std::to_string(kLongPrompt));
}

}  // namespace encore::check
