// What is answered before anything reaches the engine: paths, methods, keys, states, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server_rig.h"

namespace encore::fake {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(DoorTest, UnknownPathIs404InOpenAisShape) {
  ServerRig rig;
  const Client client = rig.http.get("/v1/nothing");
  EXPECT_EQ(client->status, 404);
  EXPECT_EQ(client->content_type, "application/json");
  EXPECT_EQ(error_of(*client.answer)["code"], "not_found");
  EXPECT_EQ(rig.http.get("/v1/models/")->status, 404);
}

TEST(DoorTest, WrongMethodIs405AndSaysWhichAreTaken) {
  ServerRig rig;
  const Client get = rig.http.get("/v1/chat/completions");
  EXPECT_EQ(get->status, 405);
  EXPECT_EQ(get->header("Allow"), "POST");
  const Client post = rig.http.post_json("/health", "");
  EXPECT_EQ(post->status, 405);
  EXPECT_EQ(post->header("Allow"), "GET, HEAD");
  EXPECT_EQ(rig.http.send("HEAD", "/health")->status, 200);
  EXPECT_EQ(rig.http.send("OPTIONS", "/v1/completions")->status, 405);
}

TEST(DoorTest, WhileLoadingItIsAliveButNotReady) {
  ServerRig rig;
  EXPECT_EQ(rig.http.get("/health")->status, 200);
  const Client ready = rig.http.get("/ready");
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(error_of(*ready.answer)["code"], "loading");
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    const Client client = rig.http.post_json(path, "{}");
    EXPECT_EQ(client->status, 503) << path;
    EXPECT_EQ(client->header("Retry-After"), "5");
    EXPECT_THAT(error_of(*client.answer)["message"], HasSubstr("being loaded"));
  }
  EXPECT_EQ(rig.http.get("/v1/models")->status, 503);
  EXPECT_EQ(rig.http.get("/metrics")->status, 200);
  EXPECT_EQ(rig.http.get("/version")->status, 200);
  rig.load();
  EXPECT_EQ(rig.http.get("/ready")->status, 200);
  EXPECT_EQ(rig.http.get("/v1/models")->status, 200);
}

TEST(DoorTest, SmallEndpointsAnswer) {
  ServerRig rig;
  rig.load();
  const Json models = Json::parse(rig.http.get("/v1/models")->body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256);
  EXPECT_EQ(Json::parse(rig.http.get("/v1/models/tiny")->body)["id"], "tiny");
  EXPECT_EQ(Json::parse(rig.http.get("/v1/models/t%69ny")->body)["id"], "tiny");
  const Client other = rig.http.get("/v1/models/other");
  EXPECT_EQ(other->status, 404);
  EXPECT_EQ(error_of(*other.answer)["code"], "model_not_found");
  EXPECT_THAT(Json::parse(rig.http.get("/version")->body)["version"], ::testing::StartsWith("0."));
  const Client page = rig.http.get("/");
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(page->body, "<!doctype html>");
  const Client metrics = rig.http.get("/metrics");
  EXPECT_EQ(metrics->content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(metrics->body, HasSubstr("encore:num_requests_running"));
}

TEST(DoorTest, PageAndMetricsCanBeSwitchedOff) {
  ServerConfig config = ServerRig::named();
  config.page = false;
  config.metrics = false;
  ServerRig rig(config);
  EXPECT_EQ(rig.http.get("/")->status, 404);
  EXPECT_EQ(rig.http.get("/metrics")->status, 404);
}

TEST(DoorTest, WithKeysTheApiNeedsOneAndTheProbesDoNot) {
  ServerConfig config = ServerRig::named();
  config.api_keys = {"first-key", "second-key"};
  ServerRig rig(config);
  rig.load();
  const auto models = [&](const std::string& authorization) {
    HttpHeaders headers;
    if (!authorization.empty()) headers = {{"authorization", authorization}};
    return rig.http.send("GET", "/v1/models", {}, headers);
  };
  const Client without = models("");
  EXPECT_EQ(without->status, 401);
  EXPECT_EQ(without->header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(error_of(*without.answer)["code"], "invalid_api_key");
  EXPECT_EQ(models("Bearer first-kez")->status, 401);
  EXPECT_EQ(models("Bearer first-key")->status, 200);
  EXPECT_EQ(models("bearer second-key")->status, 200);
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(rig.http.post_json(path, "{}")->status, 401) << path;
  }
  for (const char* path : {"/health", "/ready", "/metrics", "/version", "/"}) {
    EXPECT_EQ(rig.http.get(path)->status, 200) << path;
  }
}

// Before a body is received, with the answer that there would be after it.
TEST(DoorTest, HeadIsRefusedAsTheWholeRequestWouldBe) {
  ServerConfig config = ServerRig::named();
  config.api_keys = {"a-key"};
  ServerRig rig(config);
  const HttpHeaders key = {{"Authorization", "Bearer a-key"}};
  const auto expect_refused = [&](const char* method, const char* path, const HttpHeaders& headers,
                                  int32_t status) {
    const HttpResponse early = rig.http.send_head(method, path, headers);
    const Client late = rig.http.send(method, path, "{}", headers);
    EXPECT_EQ(early.status, status) << path;
    EXPECT_EQ(late->status, status) << path;
    EXPECT_EQ(early.body, late->body);
    EXPECT_EQ(early.headers, late->headers);
    EXPECT_EQ(early.content_type, "application/json");
    const std::string counted =
        "requests_refused_total{model_name=\"tiny\",status=\"" + std::to_string(status) + "\"} 2\n";
    EXPECT_THAT(rig.http.get("/metrics")->body, HasSubstr(counted));
  };
  expect_refused("POST", "/v1/nothing", {}, 404);
  expect_refused("POST", "/health", {}, 405);
  expect_refused("POST", "/v1/completions", {{"Authorization", "Bearer b-key"}}, 401);
  expect_refused("POST", "/v1/completions", key, 503);
  rig.load();
  EXPECT_EQ(rig.http.send_head("POST", "/v1/completions", key).status, 0);
  EXPECT_EQ(rig.http.send_head("GET", "/health").status, 0);
  rig.server.drain([] {});
  rig.http.run_posted();
  const HttpResponse draining = rig.http.send_head("POST", "/v1/completions", key);
  EXPECT_EQ(draining.status, 503);
  EXPECT_THAT(draining.body, HasSubstr("shutting down"));
}

TEST(DoorTest, BodiesThatAreNoRequestsAre400) {
  ServerRig rig;
  rig.load();
  for (const char* body : {"", "{", "[1]", "{\"prompt\": 7}", "{\"prompt\": \"A\", \"n\": 0}"}) {
    const Client client = rig.post_text("/v1/completions", body);
    EXPECT_EQ(client->status, 400) << body;
    EXPECT_EQ(error_of(*client.answer)["type"], "invalid_request_error");
  }
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

TEST(DoorTest, AnotherModelIs404) {
  ServerRig rig;
  rig.load();
  const Client client = rig.post("/v1/completions", {{"model", "gpt-4"}, {"prompt", "A"}});
  EXPECT_EQ(client->status, 404);
  const Json error = error_of(*client.answer);
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_EQ(error["param"], "model");
  EXPECT_THAT(error["message"], HasSubstr("`gpt-4`"));
}

TEST(DoorTest, WhatTheEncoderSaysIsTheCallersError) {
  ServerRig rig;
  rig.load();
  const Client refused =
      rig.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "REFUSE"}}}}});
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(error_of(*refused.answer)["param"], "messages");
  EXPECT_THAT(error_of(*refused.answer)["message"], HasSubstr("refuses this conversation"));
  const Client thrown = rig.post("/v1/completions", {{"prompt", "THROW"}});
  EXPECT_EQ(thrown->status, 500);
  EXPECT_EQ(rig.server.requests_in_progress(), 0);
}

// The limit is 256 tokens: at 255 there is room for one more.
TEST(DoorTest, PromptThatLeavesNoRoomIsRefusedByTheNumbers) {
  ServerRig rig;
  rig.load();
  const auto post = [&](size_t tokens) {
    return rig.post(
        "/v1/completions",
        {{"prompt", std::string(tokens, 'A')}, {"max_tokens", 5}, {"ignore_eos", true}});
  };
  for (const size_t tokens : {256U, 257U, 512U}) {
    const Client client = post(tokens);
    EXPECT_EQ(client->status, 400);
    const Json error = error_of(*client.answer);
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "prompt");
    EXPECT_THAT(error["message"], HasSubstr("maximum context length is 256 tokens"));
    EXPECT_THAT(error["message"], HasSubstr("your prompt has " + std::to_string(tokens) + ","));
  }
  const Client last = post(255);
  rig.run();
  EXPECT_EQ(last->status, 200);
  const Json body = Json::parse(last->body);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 1);
}

// Of text beyond twice the limit nobody knows how many tokens it would have been.
TEST(DoorTest, PromptThatIsFarTooLongIsNotCountedToItsEnd) {
  ServerRig rig;
  rig.load();
  const auto message_for = [&](const std::string& path, const Json& body) {
    const Client client = rig.post(path, body);
    EXPECT_EQ(client->status, 400);
    const Json error = error_of(*client.answer);
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["code"], "context_length_exceeded");
    return error["message"].get<std::string>();
  };
  EXPECT_THAT(message_for("/v1/completions", {{"prompt", std::string(2560, 'A')}}),
              HasSubstr("your prompt has at least 513,"));
  // Its length alone is enough: tokens have at most 1000 bytes.
  const std::string huge(300'000, 'A');
  EXPECT_THAT(message_for("/v1/completions", {{"prompt", huge}}),
              HasSubstr("your prompt has at least 300,"));
  EXPECT_THAT(message_for("/tokenize", {{"prompt", huge}}),
              HasSubstr("your prompt has at least 300,"));
  EXPECT_THAT(
      message_for("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", huge}}}}}),
      HasSubstr("your messages have at least 300,"));
  // What is only longer than the context is counted.
  const Client counted = rig.post("/tokenize", {{"prompt", std::string(2560, 'A')}});
  EXPECT_EQ(Json::parse(counted->body)["count"], 2560);
}

// Four run, two wait: the seventh choice is one too many.
TEST(DoorTest, FullQueueIs429UntilSomebodyIsDone) {
  ServerConfig config = ServerRig::named();
  config.max_queue = 2;
  RigOptions options;
  options.limits.max_requests = 4;
  ServerRig rig(config, options);
  rig.load();
  const Json one = {{"prompt", "AB"}, {"max_tokens", 3}};
  std::vector<Client> clients;
  clients.reserve(5);
  for (int i = 0; i < 5; ++i) clients.push_back(rig.post("/v1/completions", one));
  const Client two = rig.post("/v1/completions", {{"prompt", "AB"}, {"n", 2}});
  EXPECT_EQ(two->status, 429);
  clients.push_back(rig.post("/v1/completions", one));
  const Client refused = rig.post("/v1/completions", one);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_EQ(error_of(*refused.answer)["type"], "rate_limit_error");
  EXPECT_EQ(rig.post("/tokenize", {{"prompt", "AB"}})->status, 429);
  rig.run();
  for (const Client& client : clients) EXPECT_EQ(client->status, 200);
  rig.completion(one);
}

TEST(DoorTest, RequestsBeingTokenizedCountAsWaiting) {
  ServerConfig config = ServerRig::named();
  config.max_queue = 0;
  RigOptions options;
  options.limits.max_requests = 2;
  ServerRig rig(config, options);
  rig.load();
  rig.text.close_gate();
  const std::string body = R"({"prompt": "AB", "max_tokens": 2})";
  const Client first = rig.http.post_json("/v1/completions", body);
  const Client second = rig.http.post_json("/v1/completions", body);
  EXPECT_EQ(rig.http.post_json("/v1/completions", body)->status, 429);
  rig.text.open_gate();
  while (rig.rig.engine->stats().num_waiting < 2) rig.http.await_posted();
  rig.run();
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(second->status, 200);
}

TEST(DoorTest, BodiesThatWaitToBeReadAreLimitedTogether) {
  ServerConfig config = ServerRig::named();
  config.max_body_bytes = 1024;
  ServerRig rig(config);
  rig.load();
  rig.text.close_gate();
  Json body = {{"prompt", "AB"}, {"max_tokens", 1}, {"user", ""}};
  body["user"] = std::string(1000 - body.dump().size(), 'u');
  std::vector<Client> clients;
  clients.reserve(8);
  for (int i = 0; i < 8; ++i) clients.push_back(rig.http.post_json("/v1/completions", body.dump()));
  EXPECT_EQ(rig.http.post_json("/v1/completions", body.dump())->status, 429);
  EXPECT_EQ(rig.http.post_json("/v1/completions", R"({"prompt": "A", "n": 0})")->status, 0);
  rig.text.open_gate();
  while (rig.server.requests_in_progress() > 8 || rig.rig.engine->stats().num_waiting < 8) {
    rig.http.await_posted();
  }
  rig.run();
  for (const Client& client : clients) EXPECT_EQ(client->status, 200);
  rig.completion(body);
}

TEST(DoorTest, LongPromptsHoldUpOnlyEachOther) {
  ServerRig rig;
  rig.load();
  rig.text.close_gate(64 << 10);
  const Json body = {{"prompt", std::string(64 << 10, 'A')}};
  std::vector<Client> slow;
  slow.reserve(5);
  for (int i = 0; i < 5; ++i) slow.push_back(rig.http.post_json("/v1/completions", body.dump()));
  EXPECT_EQ(rig.post("/tokenize", {{"prompt", "BAD"}})->status, 200);
  for (const Client& client : slow) EXPECT_EQ(client->status, 0);
  rig.text.open_gate();
  while (rig.server.requests_in_progress() > 0) rig.http.await_posted();
  for (const Client& client : slow) EXPECT_EQ(client->status, 400);
}

TEST(DoorTest, WorkerIsFreeOnceItsClientHasLeft) {
  ServerRig rig;
  rig.load();
  rig.text.close_gate(80'000);
  const Client slow =
      rig.http.post_json("/tokenize", Json{{"prompt", std::string(80'000, 'A')}}.dump());
  rig.text.await_visitor();
  const Client next =
      rig.http.post_json("/tokenize", Json{{"prompt", std::string(70'000, 'A')}}.dump());
  slow.disconnect();
  while (!next->complete) rig.http.await_posted();
  EXPECT_EQ(Json::parse(next->body)["count"], 70'000);
  EXPECT_EQ(slow->num_answers, 0);
}

// It could never be served, so "try again later" would be a lie.
TEST(DoorTest, MoreChoicesThanTheServerEverTakesAre400) {
  ServerConfig config = ServerRig::named();
  config.max_queue = 2;
  RigOptions options;
  options.limits.max_requests = 4;
  ServerRig rig(config, options);
  rig.load();
  const Client client = rig.post("/v1/completions", {{"prompt", "AB"}, {"n", 7}});
  EXPECT_EQ(client->status, 400);
  EXPECT_EQ(error_of(*client.answer)["param"], "n");
  EXPECT_THAT(error_of(*client.answer)["message"], HasSubstr("at most 6"));
}

TEST(DoorTest, TokenizeAndDetokenizeAnswerWithoutTheEngine) {
  ServerRig rig;
  rig.load();
  const Client tokens = rig.post("/tokenize", {{"prompt", "BAD"}, {"return_token_strs", true}});
  const Json body = Json::parse(tokens->body);
  EXPECT_EQ(body["tokens"], Json({1, 0, 3}));
  EXPECT_EQ(body["count"], 3);
  EXPECT_EQ(body["max_model_len"], 256);
  EXPECT_EQ(body["token_strs"], Json({"_B", "_A", "_D"}));
  const Client text = rig.post("/detokenize", {{"tokens", {1, 0, 3}}});
  EXPECT_EQ(Json::parse(text->body)["prompt"], "BAD");
  EXPECT_EQ(rig.post("/detokenize", {{"tokens", {99}}})->status, 400);
  EXPECT_EQ(rig.rig.engine->stats().num_steps, 0);
}

}  // namespace
}  // namespace encore::fake
