// Parts of the server that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "config/key_table.h"
#include "serve/api_keys.h"
#include "serve/event_mailbox.h"
#include "serve/reply_id.h"
#include "serve/request_options.h"
#include "serve/routes.h"
#include "serve/throughput.h"

namespace encore {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string key_file(const std::string& text) {
  std::string path = ::testing::TempDir() + "keys_" + std::to_string(getpid());
  std::ofstream(path) << text;
  return path;
}

TEST(ApiKeysTest, FileAndListAreTakenTogether) {
  ServerConfig config;
  config.api_keys = {"one"};
  config.api_key_file = key_file("two\r\n\n  three  \n");
  const auto keys = load_api_keys(config);
  ASSERT_TRUE(keys.ok()) << keys.status().to_string();
  EXPECT_THAT(*keys, ElementsAre("one", "two", "three"));
}

TEST(ApiKeysTest, WhatCannotBeAKeyIsRefusedWithoutShowingIt) {
  ServerConfig config;
  config.api_keys = {"fine", "secret word"};
  Status status = load_api_keys(config).status();
  EXPECT_THAT(status.message(), HasSubstr("entry 2 of server.api_keys"));
  EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
  config.api_keys = {""};
  EXPECT_FALSE(load_api_keys(config).ok());
  config.api_keys = {std::string(1001, 'k')};
  EXPECT_THAT(load_api_keys(config).status().message(), HasSubstr("1001 bytes"));
  config.api_keys = {};
  config.api_key_file = key_file("fine\nsecret\x01\n");
  EXPECT_THAT(load_api_keys(config).status().message(), HasSubstr(":2: the key"));
}

// An operator who names a file wants keys: one without any must not open the server.
TEST(ApiKeysTest, FileWithoutKeysIsAnError) {
  ServerConfig config;
  config.api_key_file = key_file("\n\n");
  EXPECT_EQ(load_api_keys(config).status().code(), StatusCode::kInvalidArgument);
  config.api_key_file = "/nonexistent/keys";
  EXPECT_THAT(load_api_keys(config).status().message(), HasSubstr("/nonexistent/keys"));
}

TEST(ApiKeysTest, OnlyTheWholeKeyIsTheKey) {
  const std::vector<std::string> keys = {"alpha", "beta"};
  EXPECT_TRUE(is_authorized("", {}));
  EXPECT_TRUE(is_authorized("Bearer alpha", keys));
  EXPECT_TRUE(is_authorized("BEARER  beta ", keys));
  for (const char* wrong : {"", "alpha", "Basic alpha", "Bearer", "Bearer ", "Bearer alph",
                            "Bearer alphaa", "Bearer alphb", "Bearer alphaalpha", "Bearer betaa"}) {
    EXPECT_FALSE(is_authorized(wrong, keys)) << wrong;
  }
}

TEST(ApiKeysTest, ShownConfigurationHasStarsInTheirPlace) {
  Config config;
  config.server.api_keys = {"secret", "another"};
  EXPECT_EQ(show(*find_key("server.api_keys"), config), R"(["***", "***"])");
  EXPECT_EQ(config.server.api_keys[0], "secret");
}

TEST(RoutesTest, ModelNamesMayBeEncoded) {
  EXPECT_EQ(find_route("/v1/models/org%2Fname")->endpoint, Endpoint::kModel);
  EXPECT_EQ(model_in_path("/v1/models/org%2Fname"), "org/name");
  EXPECT_EQ(model_in_path("/v1/models/org/name"), "org/name");
  EXPECT_EQ(model_in_path("/v1/models/100%"), "100%");
  EXPECT_EQ(model_in_path("/v1/models/%4"), "%4");
  EXPECT_EQ(model_in_path("/v1/models/%zz"), "%zz");
}

TEST(RequestOptionsTest, WhatIsGivenWinsOverDefaults) {
  RequestDefaults defaults;
  defaults.sampling.temperature = 0.5F;
  defaults.sampling.top_p = 0.9F;
  defaults.sampling.seed = 77;
  defaults.max_tokens = 16;
  GenerationRequest request;
  request.temperature = 0.0F;
  request.top_k = 40;
  request.logit_bias = {{5, 2.0F}};
  request.num_logprobs = 3;
  request.min_tokens = 2;
  request.stop_token_ids = {9};
  const auto options = make_request_options(request, {{1, 2}}, defaults, 100, 1000);
  ASSERT_EQ(options.size(), 1U);
  EXPECT_THAT(options[0].prompt, ElementsAre(1, 2));
  EXPECT_EQ(options[0].sampling.temperature, 0.0F);
  EXPECT_EQ(options[0].sampling.top_p, 0.9F);
  EXPECT_EQ(options[0].sampling.top_k, 40);
  EXPECT_EQ(options[0].sampling.seed, 77U);
  EXPECT_EQ(options[0].sampling.num_logprobs, 3);
  EXPECT_EQ(options[0].sampling.min_tokens, 2);
  EXPECT_EQ(options[0].sampling.logit_bias.size(), 1U);
  EXPECT_THAT(options[0].stop_tokens, ElementsAre(9));
  EXPECT_EQ(options[0].max_tokens, 16);
  EXPECT_EQ(options[0].deadline_us, 1000);
  request.is_chat = true;
  EXPECT_EQ(make_request_options(request, {{1}}, defaults, 100, -1)[0].max_tokens, -1);
  request.max_tokens = 7;
  EXPECT_EQ(make_request_options(request, {{1}}, defaults, 100, -1)[0].max_tokens, 7);
}

TEST(RequestOptionsTest, ReplyEndsWhereTheRoomDoesWhateverWasAskedFor) {
  GenerationRequest request;
  request.max_tokens = 50;
  const auto options = make_request_options(request, {{1, 2, 3}, {1}}, {}, 52, -1);
  EXPECT_EQ(options[0].max_tokens, 49);
  EXPECT_EQ(options[1].max_tokens, 50);
}

TEST(RequestOptionsTest, ChoicesOfAPromptAreTogetherAndCountFromItsSeed) {
  GenerationRequest request;
  request.n = 2;
  request.seed = 100;
  const auto options = make_request_options(request, {{1}, {2}}, {}, 100, -1);
  ASSERT_EQ(options.size(), 4U);
  EXPECT_THAT(options[1].prompt, ElementsAre(1));
  EXPECT_THAT(options[2].prompt, ElementsAre(2));
  EXPECT_EQ(options[0].sampling.seed, 100U);
  EXPECT_EQ(options[1].sampling.seed, 101U);
  EXPECT_EQ(options[2].sampling.seed, 100U);
}

TEST(EventMailboxTest, TellsOnceHoweverMuchIsPut) {
  int told = 0;
  EventMailbox mailbox([&] { ++told; });
  std::vector<RequestEvent> events(1);
  events[0].request = 1;
  mailbox.put(events);
  EXPECT_TRUE(events.empty());
  events.resize(2);
  events[0].request = 2;
  events[1].request = 3;
  mailbox.put(events);
  events.clear();
  mailbox.put(events);
  EXPECT_EQ(told, 1);
  std::vector<RequestEvent> taken(5);
  mailbox.take(taken);
  ASSERT_EQ(taken.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(taken[i].request, i + 1);
  mailbox.take(taken);
  EXPECT_TRUE(taken.empty());
  events.resize(1);
  mailbox.put(events);
  EXPECT_EQ(told, 2);
}

TEST(ReplyIdTest, NoTwoAreTheSame) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(make_reply_id(i % 2 == 0));
  EXPECT_EQ(ids.size(), 1000U);
  EXPECT_THAT(make_reply_id(true), ::testing::MatchesRegex("chatcmpl-[0-9a-f]{24}"));
  EXPECT_THAT(make_reply_id(false), ::testing::MatchesRegex("cmpl-[0-9a-f]{24}"));
}

TEST(ThroughputTest, SaysWhatTheLastSecondsBrought) {
  ThroughputMeter meter(/*submit_runs_step=*/false);
  EngineStats stats;
  stats.num_pages = 200;
  EXPECT_EQ(meter.line(stats, 10.0), "");
  stats.num_steps = 1000;
  stats.prompt_tokens = 12'340;
  stats.generation_tokens = 23'456;
  stats.num_running = 12;
  stats.num_waiting = 3;
  stats.pages_used = 90;
  stats.prefix_cache_queries = 300;
  stats.prefix_cache_hits = 201;
  stats.total_costs.schedule_ns = 9'000'000;
  stats.total_costs.submit_ns = 6'000'000;
  EXPECT_EQ(meter.line(stats, 10.0),
            "prompt 1,234 tokens/s, generation 2,346 tokens/s, running 12, waiting 3, KV 45 %, "
            "prefix hits 67 %, host 15 us a step");
  EXPECT_EQ(meter.line(stats, 10.0), "");
  stats.num_steps = 1001;
  EXPECT_EQ(meter.line(stats, 10.0),
            "prompt 0 tokens/s, generation 0 tokens/s, running 12, waiting 3, KV 45 %, host 0 us a "
            "step");
}

// The step itself is no cost of the host's.
TEST(ThroughputTest, SubmitThatRunsTheStepIsNotCounted) {
  ThroughputMeter meter(/*submit_runs_step=*/true);
  EngineStats stats;
  stats.num_steps = 10;
  stats.total_costs.schedule_ns = 10'000;
  stats.total_costs.submit_ns = 900'000'000;
  stats.total_costs.process_ns = 20'000;
  EXPECT_THAT(meter.line(stats, 1.0), ::testing::EndsWith("host 3 us a step"));
}

}  // namespace
}  // namespace encore
