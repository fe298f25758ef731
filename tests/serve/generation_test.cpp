// Replies from end to end: what clients get for what the engine does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "serve/drain.h"
#include "server_rig.h"

namespace encore::fake {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

Json message(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

TEST(GenerationTest, CompletionIsWhatTheModelSays) {
  ServerRig rig;
  rig.load();
  rig.script('A', 2, {7, 8, 9, 63});
  const Json body = rig.completion({{"prompt", "AB"}, {"max_tokens", 10}});
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["choices"][0]["text"], "HIJ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"], 6);
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

TEST(GenerationTest, ChatStreamsRoleTextReasonUsageAndDone) {
  ServerRig rig;
  rig.load();
  rig.script('C', 2, {7, 8, 63});
  const Client client =
      rig.post("/v1/chat/completions", {{"messages", {message("CD")}},
                                        {"stream", true},
                                        {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(client->header("Cache-Control"), "no-cache");
  EXPECT_FALSE(client->complete);
  rig.run();
  EXPECT_TRUE(client->complete);
  const std::vector<Json> records = records_of(client->body);
  ASSERT_EQ(records.size(), 6U) << client->body;
  EXPECT_EQ(records[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(records[1]["choices"][0]["delta"]["content"], "H");
  EXPECT_EQ(records[2]["choices"][0]["delta"]["content"], "I");
  EXPECT_EQ(records[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(records[4]["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(records[4]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(records[5], "[DONE]");
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(records[i]["id"], records[0]["id"]);
}

TEST(GenerationTest, StreamReachesTheClientTokenByToken) {
  ServerRig rig;
  rig.load();
  rig.script('A', 1, {7, 8, 9, 63});
  const Client client =
      rig.post("/v1/completions", {{"prompt", "A"}, {"stream", true}, {"max_tokens", 9}});
  rig.step();
  EXPECT_THAT(client->body, HasSubstr("\"H\""));
  EXPECT_THAT(client->body, Not(HasSubstr("\"I\"")));
  rig.step();
  EXPECT_THAT(client->body, HasSubstr("\"I\""));
}

TEST(GenerationTest, ChoicesCountTheirPromptOnceAndTheirTokensEach) {
  ServerRig rig;
  rig.load();
  const Json body = rig.completion({{"prompt", "ABC"},
                                    {"n", 3},
                                    {"max_tokens", 5},
                                    {"temperature", 2.0},
                                    {"seed", 11},
                                    {"ignore_eos", true}});
  ASSERT_EQ(body["choices"].size(), 3U);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"], 15);
  // Choice 2 is what seed 13 gives alone.
  const Json alone = rig.completion({{"prompt", "ABC"},
                                     {"max_tokens", 5},
                                     {"temperature", 2.0},
                                     {"seed", 13},
                                     {"ignore_eos", true}});
  EXPECT_EQ(body["choices"][2]["text"], alone["choices"][0]["text"]);
  EXPECT_NE(body["choices"][0]["text"], body["choices"][2]["text"]);
}

TEST(GenerationTest, SeveralPromptsAreOneAnswerInTheirOrder) {
  ServerRig rig;
  rig.load();
  rig.script('A', 2, {7, 63});
  rig.script('B', 1, {8, 9, 63});
  const Json body =
      rig.completion({{"prompt", {"AA", "B"}}, {"n", 2}, {"echo", true}, {"max_tokens", 9}});
  ASSERT_EQ(body["choices"].size(), 4U);
  const std::vector<std::string> expected = {"AAH", "AAH", "BIJ", "BIJ"};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], expected[i]);
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"], 2 * 2 + 2 * 3);
}

TEST(GenerationTest, PromptOfIdsIsEchoedAsText) {
  ServerRig rig;
  rig.load();
  rig.script('B', 2, {7, 63});
  const Json body = rig.completion({{"prompt", {1, 0}}, {"echo", true}});
  EXPECT_EQ(body["choices"][0]["text"], "BAH");
}

TEST(GenerationTest, CompletionHas16TokensUnlessItSaysOtherwiseAndChatAllThatFit) {
  ServerRig rig;
  rig.load();
  rig.defaults.ignore_eos = true;
  EXPECT_EQ(rig.completion({{"prompt", "AB"}})["usage"]["completion_tokens"], 16);
  const Client chat = rig.post("/v1/chat/completions", {{"messages", {message("AB")}}});
  rig.run();
  EXPECT_EQ(Json::parse(chat->body)["usage"]["completion_tokens"], 256 - 2);
}

TEST(GenerationTest, DefaultsApplyUntilTheRequestSaysOtherwise) {
  ServerRig rig;
  rig.load();
  rig.script('A', 1, {7, 8, 9, 63});
  rig.defaults.stop = {"I"};
  EXPECT_EQ(rig.completion({{"prompt", "A"}})["choices"][0]["text"], "H");
  EXPECT_EQ(rig.completion({{"prompt", "A"}, {"stop", "J"}})["choices"][0]["text"], "HI");
}

TEST(GenerationTest, LogprobsComeWithTheBytesOfTheirTokens) {
  ServerRig rig;
  rig.load();
  rig.script('A', 1, {7, 63});
  const Client client =
      rig.post("/v1/chat/completions",
               {{"messages", {message("A")}}, {"logprobs", true}, {"top_logprobs", 2}});
  rig.run();
  const Json logprobs = Json::parse(client->body)["choices"][0]["logprobs"]["content"];
  ASSERT_GE(logprobs.size(), 1U);
  EXPECT_EQ(logprobs[0]["token"], "H");
  EXPECT_EQ(logprobs[0]["bytes"], Json({72}));
  EXPECT_EQ(logprobs[0]["top_logprobs"].size(), 2U);
}

TEST(GenerationTest, NanEndsAWholeReplyWith500) {
  ServerRig rig;
  rig.load();
  rig.rig.device().nan_at = {{0, 3}};  // the third token of the sequence that begins with A
  const Client broken = rig.post("/v1/completions", {{"prompt", "AB"}, {"ignore_eos", true}});
  const Client other = rig.post("/v1/completions", {{"prompt", "CB"}, {"max_tokens", 6}});
  rig.run();
  EXPECT_EQ(broken->status, 500);
  EXPECT_EQ(error_of(*broken.answer)["type"], "server_error");
  EXPECT_THAT(error_of(*broken.answer)["message"], HasSubstr("NaN"));
  EXPECT_EQ(other->status, 200);
}

TEST(GenerationTest, NanEndsAStreamWithAnErrorRecordAndDoneAndItsOtherChoices) {
  ServerRig rig;
  rig.load();
  rig.rig.device().nan_at = {{0, 5}};
  const Client client = rig.post(
      "/v1/completions",
      {{"prompt", {"AB", "CB"}}, {"stream", true}, {"max_tokens", 100}, {"ignore_eos", true}});
  for (int i = 0; i < 8; ++i) rig.step();
  EXPECT_TRUE(client->complete);
  const std::vector<Json> records = records_of(client->body);
  ASSERT_GE(records.size(), 3U);
  EXPECT_TRUE(records[records.size() - 2].contains("error")) << client->body;
  EXPECT_EQ(records.back(), "[DONE]");
  EXPECT_TRUE(rig.rig.engine->idle());
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

TEST(GenerationTest, RequestPastItsTimeEndsAsAborted) {
  ServerConfig config = ServerRig::named();
  config.request_timeout_s = 1;
  ServerRig rig(config);
  rig.load();
  const Client client =
      rig.post("/v1/completions",
               {{"prompt", "AB"}, {"stream", true}, {"max_tokens", 200}, {"ignore_eos", true}});
  rig.step();
  EXPECT_FALSE(client->complete);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  rig.run();
  const std::vector<Json> records = records_of(client->body);
  ASSERT_GE(records.size(), 2U);
  EXPECT_EQ(records[records.size() - 2]["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(records.back(), "[DONE]");
}

// Two workers are busy with the first two, and the third waits for one.
TEST(GenerationTest, RequestPastItsTimeWhileTokenizingEndsAsAbortedToo) {
  ServerConfig config = ServerRig::named();
  config.request_timeout_s = 1;
  ServerRig rig(config);
  rig.load();
  rig.text.close_gate();
  const Client stream =
      rig.http.post_json("/v1/chat/completions",
                         Json{{"messages", {message("AB")}}, {"stream", true}, {"n", 2}}.dump());
  const Client tokens = rig.http.post_json("/tokenize", R"({"prompt": "AB"})");
  const Client whole =
      rig.http.post_json("/v1/completions", R"({"prompt": ["AB", "C"], "echo": true})");
  while (rig.server.requests_in_progress() > 0) rig.http.await_posted();
  EXPECT_EQ(stream->status, 200);
  const std::vector<Json> records = records_of(stream->body);
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[1]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(records[2]["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(records[3]["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(records[4], "[DONE]");
  EXPECT_EQ(whole->status, 200);
  const Json body = Json::parse(whole->body);
  ASSERT_EQ(body["choices"].size(), 2U);
  EXPECT_EQ(body["choices"][1]["text"], "");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "abort");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  EXPECT_EQ(tokens->status, 503);
  EXPECT_EQ(tokens->header("Retry-After"), "5");
  EXPECT_THAT(error_of(*tokens.answer)["message"], HasSubstr("server.request_timeout_s"));
  EXPECT_EQ(rig.rig.engine->stats().num_steps, 0);
  EXPECT_THAT(rig.http.get("/metrics")->body,
              ::testing::ContainsRegex("request_success_total[{][^\n]*\"deadline\"[^\n]* 4\n"));
}

// Client gone, from every state.

TEST(ClientGoneTest, WhileTokenizingNothingReachesTheEngine) {
  ServerRig rig;
  rig.load();
  rig.text.close_gate();
  const Client client = rig.http.post_json("/v1/completions", R"({"prompt": "AB"})");
  client.disconnect();
  rig.text.open_gate();
  rig.http.await_posted();
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
  EXPECT_FALSE(rig.step());
  EXPECT_EQ(rig.rig.engine->stats().num_steps, 0);
  EXPECT_EQ(client->num_answers, 0);
  EXPECT_TRUE(client.exchange.expired());
}

class ClientGoneInTest : public ::testing::TestWithParam<bool> {
 protected:
  Json body() const {
    return {{"prompt", "ABCDE"},
            {"max_tokens", 100},
            {"ignore_eos", true},
            {"n", 2},
            {"stream", GetParam()}};
  }
  // One step later nothing of the request is left, and its neighbour goes on as if alone.
  static void expect_gone(ServerRig& rig, const Client& client, const Client& neighbour) {
    client.disconnect();
    rig.step();
    EXPECT_EQ(rig.server.requests_in_progress(), 1);
    const EngineStats stats = rig.rig.engine->stats();
    EXPECT_EQ(stats.num_running + stats.num_waiting, 1);
    EXPECT_EQ(stats.finished[static_cast<size_t>(FinishReason::kCancelled)], 2);
    EXPECT_TRUE(client.exchange.expired());
    rig.run();
    EXPECT_EQ(Json::parse(neighbour->body)["choices"][0]["text"], "HIJKLMNO");
    EXPECT_EQ(rig.rig.engine->stats().pages_used, 0);
    EXPECT_EQ(rig.server.requests_in_progress(), 0);
    EXPECT_LE(client->num_answers, 1);
  }
  static Client neighbour(ServerRig& rig) {
    rig.script('Z', 1, {7, 8, 9, 10, 11, 12, 13, 14, 63});
    return rig.post("/v1/completions", {{"prompt", "Z"}});
  }
};

TEST_P(ClientGoneInTest, TheInbox) {
  ServerRig rig;
  rig.load();
  const Client other = neighbour(rig);
  expect_gone(rig, rig.post("/v1/completions", body()), other);
}

TEST_P(ClientGoneInTest, TheQueue) {
  RigOptions options;
  options.limits.max_requests = 1;
  ServerRig rig(ServerRig::named(), options);
  rig.load();
  const Client other = neighbour(rig);
  const Client client = rig.post("/v1/completions", body());
  rig.step();
  EXPECT_EQ(rig.rig.engine->stats().num_waiting, 2);
  expect_gone(rig, client, other);
}

TEST_P(ClientGoneInTest, ThePrefill) {
  RigOptions options;
  options.limits.max_requests = 3;
  options.limits.max_tokens = 3;  // five tokens of prompt take two steps
  ServerRig rig(ServerRig::named(), options);
  rig.load();
  const Client other = neighbour(rig);
  const Client client = rig.post("/v1/completions", body());
  rig.step();
  expect_gone(rig, client, other);
}

TEST_P(ClientGoneInTest, TheDecode) {
  ServerRig rig;
  rig.load();
  const Client other = neighbour(rig);
  const Client client = rig.post("/v1/completions", body());
  for (int i = 0; i < 3; ++i) rig.step();
  expect_gone(rig, client, other);
}

INSTANTIATE_TEST_SUITE_P(WholeAndStreamed, ClientGoneInTest, ::testing::Bool());

// The end.

TEST(DrainTest, WhatRunsEndsAndNothingNewBegins) {
  ServerRig rig;
  rig.load();
  rig.script('A', 1, {7, 8, 63});
  const Client running = rig.post("/v1/completions", {{"prompt", "A"}});
  bool drained = false;
  rig.server.drain([&] { drained = true; });
  rig.http.run_posted();
  EXPECT_FALSE(drained);
  EXPECT_EQ(rig.http.get("/ready")->status, 503);
  EXPECT_EQ(error_of(*rig.http.get("/ready").answer)["code"], "draining");
  EXPECT_EQ(rig.http.get("/health")->status, 200);
  const Client late = rig.http.post_json("/v1/completions", R"({"prompt": "A"})");
  EXPECT_EQ(late->status, 503);
  EXPECT_EQ(late->header("Retry-After"), "5");
  rig.run();
  EXPECT_TRUE(drained);
  EXPECT_EQ(Json::parse(running->body)["choices"][0]["text"], "HI");
}

TEST(DrainTest, WithNothingToDoItIsDoneAtOnce) {
  ServerRig rig;
  rig.load();
  bool drained = false;
  rig.server.drain([&] { drained = true; });
  rig.http.run_posted();
  EXPECT_TRUE(drained);
}

TEST(DrainTest, CancelledRequestsStillGetTheirEnds) {
  ServerRig rig;
  rig.load();
  const Json body = {{"prompt", "AB"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}};
  const Client running = rig.post("/v1/completions", body);
  rig.step();
  rig.text.is_deaf = true;
  rig.text.close_gate();
  const Client tokenizing = rig.http.post_json("/v1/completions", body.dump());
  rig.text.await_visitor();  // or it might be over before it is cancelled
  bool drained = false;
  rig.server.drain([&] { drained = true; });
  rig.server.cancel_all();
  rig.http.run_posted();
  EXPECT_EQ(tokenizing->status, 503);
  rig.run();
  const std::vector<Json> records = records_of(running->body);
  EXPECT_EQ(records[records.size() - 2]["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(records.back(), "[DONE]");
  EXPECT_TRUE(drained);
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
  EXPECT_EQ(tokenizing->num_answers, 1);
  // The worker goes on for nobody.
  EXPECT_FALSE(rig.server.end_preparations(std::chrono::milliseconds(10)));
  rig.text.open_gate();
  EXPECT_TRUE(rig.server.end_preparations(std::chrono::seconds(60)));
}

// The server, its loop and a device whose step goes on until it is let go.
class SlowStepTest : public ::testing::Test {
 protected:
  SlowStepTest() {
    rig_.load();
    client_ =
        rig_.post("/v1/completions",
                  {{"prompt", "AB"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}});
    rig_.step();
    rig_.rig.device().before_wait = [this] {
      if (!in_step_.try_wait()) in_step_.count_down();
      let_go_.wait();
    };
    loop_ = std::thread([this] { status_ = rig_.loop.run(); });
    in_step_.wait();
  }
  ~SlowStepTest() override {
    rig_.loop.stop();
    loop_.join();
  }

  // Drains on a thread of its own, while this one is the server's.
  bool drain(const DrainLimits& limits, bool let_go_when_cancelled) {
    std::future<bool> drained =
        std::async(std::launch::async, [&] { return drain_requests(rig_.server, limits); });
    const int64_t before = rig_.http.num_run();
    while (rig_.http.num_run() < before + 2) rig_.http.await_posted();  // drain and cancel
    if (let_go_when_cancelled) let_go_.count_down();
    while (drained.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      rig_.http.run_posted();
    }
    return drained.get();
  }

  ServerRig rig_;
  Client client_;
  std::latch in_step_{1};
  std::latch let_go_{1};
  std::thread loop_;
  Status status_;
};

TEST_F(SlowStepTest, RequestsAreCancelledOnceTheStepHasEnded) {
  EXPECT_TRUE(drain({std::chrono::milliseconds(0), std::chrono::seconds(60)}, true));
  EXPECT_TRUE(client_->complete);
  const std::vector<Json> records = records_of(client_->body);
  ASSERT_GE(records.size(), 2U);
  EXPECT_EQ(records[records.size() - 2]["choices"][0]["finish_reason"], "abort");
  EXPECT_EQ(records.back(), "[DONE]");
}

TEST_F(SlowStepTest, StepThatDoesNotEndIsNotWaitedForWithoutLimit) {
  EXPECT_FALSE(drain({std::chrono::milliseconds(0), std::chrono::milliseconds(20)}, false));
  EXPECT_FALSE(client_->complete);
  let_go_.count_down();
}

TEST(EngineFailureTest, EveryRequestIsAnsweredAndHealthSaysSo) {
  ServerRig rig;
  rig.load();
  const Json body = {{"prompt", "AB"}, {"max_tokens", 200}, {"ignore_eos", true}};
  const Client whole = rig.post("/v1/completions", body);
  Json streamed = body;
  streamed["stream"] = true;
  const Client stream = rig.post("/v1/completions", streamed);
  rig.step();
  rig.rig.device().fail_wait = internal_error("the device is lost");
  const Client queued = rig.post("/v1/completions", body);
  rig.step();
  ASSERT_FALSE(rig.status.ok());
  rig.server.fail(rig.status);
  rig.http.run_posted();
  EXPECT_EQ(whole->status, 500);
  EXPECT_THAT(error_of(*whole.answer)["message"], HasSubstr("the device is lost"));
  EXPECT_EQ(queued->status, 500);
  EXPECT_TRUE(stream->complete);
  EXPECT_TRUE(records_of(stream->body)[records_of(stream->body).size() - 2].contains("error"));
  const Client health = rig.http.get("/health");
  EXPECT_EQ(health->status, 503);
  EXPECT_THAT(error_of(*health.answer)["message"], HasSubstr("the device is lost"));
  EXPECT_EQ(rig.http.post_json("/v1/completions", body.dump())->status, 503);
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

// A request that was being tokenized when the engine failed.
TEST(EngineFailureTest, LateArrivalsAreAnsweredToo) {
  ServerRig rig;
  rig.load();
  rig.post("/v1/completions", {{"prompt", "AB"}, {"max_tokens", 200}, {"ignore_eos", true}});
  rig.rig.device().fail_wait = internal_error("the device is lost");
  rig.text.close_gate();
  const Client late = rig.http.post_json("/v1/completions", R"({"prompt": "AB"})");
  rig.step();
  rig.text.open_gate();
  rig.http.await_posted();
  EXPECT_EQ(late->status, 500);
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

}  // namespace
}  // namespace encore::fake
