// The engine's door: S1, and every limit that add() names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Rig;
using fake::RigOptions;
using testing::HasSubstr;

Status add_status(Rig& rig, const std::function<void(RequestOptions&)>& change) {
  RequestOptions options;
  options.prompt = {1, 2, 3};
  options.max_tokens = 4;
  change(options);
  const auto id = rig.engine->add(options);
  return id.ok() ? Status() : id.status();
}

struct BadRequest {
  const char* name;
  std::function<void(RequestOptions&)> change;
  const char* message;
};

class RequestCheckTest : public testing::TestWithParam<BadRequest> {};

TEST_P(RequestCheckTest, IsRefusedNamingValueAndLimit) {
  Rig rig;
  const Status status = add_status(rig, GetParam().change);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
  EXPECT_TRUE(rig.engine->idle());
}

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

#define ENCORE_BAD(name, statement, message)            \
  BadRequest {                                          \
    name, [](RequestOptions& o) { statement; }, message \
  }

INSTANTIATE_TEST_SUITE_P(
    Limits, RequestCheckTest,
    testing::Values(
        ENCORE_BAD("EmptyPrompt", o.prompt.clear(), "prompt is empty"),
        ENCORE_BAD("LongPrompt", o.prompt.assign(256, 1), "256 tokens; the context limit is 256"),
        ENCORE_BAD("NegativeId", o.prompt[1] = -1, "token id -1; ids of this model run from 0"),
        ENCORE_BAD("IdWithoutText", o.prompt[1] = 64, "token id 64"),
        ENCORE_BAD("Temperature", o.sampling.temperature = -0.5F, "temperature is -0.5"),
        ENCORE_BAD("TemperatureNan", o.sampling.temperature = kNan, "temperature is nan"),
        ENCORE_BAD("TopPZero", o.sampling.top_p = 0.0F, "top_p is 0; it must be above 0"),
        ENCORE_BAD("TopPLarge", o.sampling.top_p = 1.5F, "top_p is 1.5"),
        ENCORE_BAD("MinP", o.sampling.min_p = 1.1F, "min_p is 1.1"),
        ENCORE_BAD("MinPNan", o.sampling.min_p = kNan, "min_p is nan"),
        ENCORE_BAD("TopK", o.sampling.top_k = -2, "top_k is -2"),
        ENCORE_BAD("Repetition", o.sampling.repetition_penalty = 0.0F, "repetition_penalty is 0"),
        ENCORE_BAD("Presence", o.sampling.presence_penalty = 2.5F, "from -2 to 2"),
        ENCORE_BAD("Frequency", o.sampling.frequency_penalty = -2.5F, "frequency_penalty is -2.5"),
        ENCORE_BAD("BiasId", (o.sampling.logit_bias = {{64, 1.0F}}), "token id 64"),
        ENCORE_BAD("BiasInfinite", (o.sampling.logit_bias = {{1, kInfinity}}), "logit_bias is inf"),
        ENCORE_BAD("BiasTwice", (o.sampling.logit_bias = {{1, 1.0F}, {1, 2.0F}}), "id 1 twice"),
        ENCORE_BAD("Logprobs", o.sampling.num_logprobs = 5, "num_logprobs is 5; it must be from 0"),
        ENCORE_BAD("MinTokens", o.sampling.min_tokens = 5, "min_tokens is 5"),
        ENCORE_BAD("MaxTokens", o.max_tokens = 0, "max_tokens is 0"),
        ENCORE_BAD("StopToken", o.stop_tokens = {64}, "stop_tokens holds token id 64"),
        ENCORE_BAD("EmptyStop", o.stop = {""}, "stop string is empty")),
    [](const auto& tested) { return tested.param.name; });

#undef ENCORE_BAD

// S1: each combination gives tokens or a written refusal; where greedy, the greedy tokens.
TEST(SamplingEdgesTest, TinyValuesGiveTokensOrARefusal) {
  Rig rig;
  RequestOptions greedy;
  greedy.prompt = {1, 2, 3};
  greedy.max_tokens = 4;
  const std::vector<int32_t> expected = fake::expected_tokens(greedy, 4);
  for (const float temperature : {0.0F, 1e-8F, 9e-5F, 2.0F}) {
    for (const float top_p : {0.0F, 1e-9F, 1.0F}) {
      for (const int32_t top_k : {-1, 0, 1, fake::kVocabSize + 5}) {
        for (const float min_p : {0.0F, 1.0F}) {
          RequestOptions options = greedy;
          options.sampling.temperature = temperature;
          options.sampling.top_p = top_p;
          options.sampling.top_k = top_k;
          options.sampling.min_p = min_p;
          const auto id = rig.engine->add(options);
          ASSERT_EQ(id.ok(), top_p > 0.0F);
          if (!id.ok()) continue;
          rig.run();
          EXPECT_FALSE(rig.replies[*id].tokens.empty());
          if (temperature < 1e-4F) {
            EXPECT_EQ(rig.replies[*id].tokens, expected);
          }
        }
      }
    }
  }
}

TEST(RequestLimitsTest, PromptOfContextMinusOneGetsItsOneToken) {
  Rig rig;
  RequestOptions options;
  options.prompt = fake::make_prompt(255, 1);
  const fake::Reply reply = rig.run_alone(options);
  EXPECT_EQ(reply.tokens, fake::expected_tokens(options, 1));
  EXPECT_EQ(reply.finish, FinishReason::kLength);
}

TEST(RequestLimitsTest, RequestThatCanNeverFitThePagesIsRefused) {
  RigOptions options;
  options.kv.num_pages = 4;  // 16 tokens
  Rig rig(options);
  EXPECT_EQ(rig.engine->max_request_tokens(), 17);
  EXPECT_THAT(add_status(rig, [](RequestOptions& o) { o.max_tokens = 15; }).message(),
              HasSubstr("max_tokens of 15 can never fit the KV cache of 4 pages of 4 tokens; lower "
                        "max_tokens to 14"));
  EXPECT_THAT(add_status(rig, [](RequestOptions& o) { o.prompt.assign(17, 1); }).message(),
              HasSubstr("KV cache holds 16"));
  RequestOptions fitting;
  fitting.prompt = {1, 2, 3};
  fitting.ignore_eos = true;
  const fake::Reply reply = rig.run_alone(fitting);
  EXPECT_EQ(reply.tokens, fake::expected_tokens(fitting, 14));
}

TEST(RequestLimitsTest, PenaltiesAndBiasesMustFitTheRunnersBuffers) {
  RigOptions options;
  options.limits.max_history = 10;
  options.limits.max_biases = 1;
  Rig rig(options);
  EXPECT_THAT(add_status(rig,
                         [](RequestOptions& o) {
                           o.sampling.repetition_penalty = 2.0F;
                           o.max_tokens = 8;
                         })
                  .message(),
              HasSubstr("11 different tokens are asked for; the limit is 10"));
  EXPECT_THAT(add_status(rig,
                         [](RequestOptions& o) {
                           o.sampling.min_tokens = 2;
                           o.sampling.logit_bias = {{1, 1.0F}};
                         })
                  .message(),
              HasSubstr("2 entries; the limit is 1"));
}

TEST(RequestLimitsTest, StopStringsNeedText) {
  RigOptions options;
  options.text = false;
  Rig rig(options);
  EXPECT_THAT(add_status(rig, [](RequestOptions& o) { o.stop = {"x"}; }).message(),
              HasSubstr("stop strings need text"));
}

TEST(EngineOptionsTest, LimitsAreChecked) {
  fake::FakeModel model;
  auto kv = std::move(model.create_kv({.num_pages = 4, .page_size = 4})).value();
  GraphsOptions graphs_options;
  graphs_options.capture.limits = {.max_requests = 2, .max_tokens = 8, .max_context = 8};
  const auto create = [&](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options;
    options.limits = graphs_options.capture.limits;
    options.num_valid_tokens = 64;
    change(options);
    auto graphs = capture_graphs(model, *kv, graphs_options);
    auto engine = Engine::create(model, *kv, std::move(graphs).value(), options);
    return engine.ok() ? std::string() : engine.status().message();
  };
  EXPECT_EQ(create([](EngineOptions&) {}), "");
  EXPECT_THAT(create([](EngineOptions& o) { o.limits.max_requests = 0; }),
              HasSubstr("max_requests is 0"));
  EXPECT_THAT(create([](EngineOptions& o) { o.limits.max_tokens = 1; }),
              HasSubstr("is 1; it must be at least 2"));
  EXPECT_THAT(create([](EngineOptions& o) { o.num_valid_tokens = 0; }),
              HasSubstr("num_valid_tokens is 0"));
  EXPECT_THAT(create([](EngineOptions& o) { o.end_tokens = {64}; }), HasSubstr("end token id 64"));
}

}  // namespace
}  // namespace encore
