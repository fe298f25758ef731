// The server's middle between two fakes: HTTP in memory above, a device in memory below. One thread
// but for the workers, so that tests decide when the engine steps.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "../engine/engine_rig.h"
#include "fake_http.h"
#include "serve/engine_loop.h"
#include "serve/model_server.h"

namespace encore::fake {

// Letters A to Z are tokens 0 to 25, as in FakeText; everything else is left out. Encoding waits
// while the gate is closed for prompts of that length, and until nobody waits for it.
class LetterText : public TextService {
 public:
  Result<EncodedPrompt> encode(const PromptInput& prompt, const TextReading&,
                               const PromptBounds& bounds) const override {
    const auto* chat = std::get_if<ChatInput>(&prompt);
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return EncodedPrompt{*ids};
    const std::string& text = chat != nullptr ? chat->messages_json : std::get<std::string>(prompt);
    if (std::ssize(text) / kLongestToken > bounds.max_ids) {
      return EncodedPrompt{{}, std::ssize(text) / kLongestToken};
    }
    if (!wait_for_gate(text.size(), bounds)) return cancelled("nobody waits");
    if (text.find("REFUSE") != std::string::npos) {
      return invalid_argument("the template refuses this conversation");
    }
    if (text.find("THROW") != std::string::npos) throw std::runtime_error("a defect");
    std::vector<int32_t> ids;
    for (const char c : text) {
      if (c >= 'A' && c <= 'Z') ids.push_back(c - 'A');
      if (std::ssize(ids) > bounds.max_counted) return EncodedPrompt{ids, std::ssize(ids)};
    }
    return EncodedPrompt{ids};
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids) text += token_bytes(id);
    return text;
  }
  std::string token_bytes(int32_t token) const override {
    return std::string(1, static_cast<char>('A' + token));
  }
  std::string token_spelling(int32_t token) const override { return "_" + token_bytes(token); }

  static constexpr int64_t kLongestToken = 1000;
  // Whether who stands before the closed gate stays there whatever happens.
  std::atomic<bool> is_deaf = false;

  // For texts of so many bytes or more.
  void close_gate(size_t from_bytes = 0) { set_gate(from_bytes); }
  void open_gate() { set_gate(SIZE_MAX); }
  // Until somebody stands before the closed gate.
  void await_visitor() const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return num_waiting_ > 0; });
  }

 private:
  void set_gate(size_t closed_from) {
    {
      const std::lock_guard lock(mutex_);
      closed_from_ = closed_from;
    }
    opened_.notify_all();
  }
  bool wait_for_gate(size_t bytes, const PromptBounds& bounds) const {
    std::unique_lock lock(mutex_);
    ++num_waiting_;
    came_.notify_all();
    bool is_open = false;
    const auto may_leave = [&] {
      is_open = bytes < closed_from_;
      return is_open || (!is_deaf && bounds.abandoned && bounds.abandoned());
    };
    while (!opened_.wait_for(lock, std::chrono::milliseconds(1), may_leave)) continue;
    --num_waiting_;
    return is_open;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  mutable std::condition_variable came_;
  mutable int32_t num_waiting_ = 0;
  size_t closed_from_ = SIZE_MAX;
};

class ServerRig {
 public:
  using Json = nlohmann::json;

  ServerRig() : ServerRig(named(), RigOptions()) {}
  explicit ServerRig(const ServerConfig& server_config) : ServerRig(server_config, RigOptions()) {}
  ServerRig(const ServerConfig& server_config, const RigOptions& options)
      : rig(options),
        server(http, server_config, "<!doctype html>"),
        loop(*rig.engine, server.event_sink()),
        max_running_requests_(options.limits.max_requests) {
    http.start(server.handler(), server.head_check());
  }

  static ServerConfig named() {
    ServerConfig config;
    config.model_name = "tiny";
    return config;
  }

  void load() {
    ServedModel model;
    model.card = {"tiny", 1700000000, rig.engine->max_request_tokens()};
    model.text = &text;
    model.engine = rig.engine.get();
    model.loop = &loop;
    model.limits.vocab_size = kNumValidTokens;
    model.limits.max_logprobs = 4;
    model.max_running_requests = max_running_requests_;
    model.defaults = [this] { return defaults; };
    server.set_model(model);
    http.run_posted();
  }

  // What the device says after a prompt that begins with `letter`, token 63 being the end.
  void script(char letter, size_t prompt_size, std::vector<int32_t> tokens) {
    rig.device().scripts[letter - 'A'] = {prompt_size, std::move(tokens)};
  }

  // Sends a request and waits until it is with the engine, or answered.
  Client post(const std::string& path, const Json& body) { return post_text(path, body.dump()); }
  Client post_text(const std::string& path, const std::string& body) {
    Client client = http.post_json(path, body);
    if (!client->complete) http.await_posted();
    return client;
  }

  // One step, and what it brings to the clients. Returns whether work is left.
  bool step() {
    const Result<bool> more = rig.engine->step(events_);
    server.event_sink()(events_);
    http.run_posted();
    status = more.ok() ? Status() : more.status();
    return more.ok() && *more;
  }
  void run() {
    for (int32_t i = 0; step(); ++i) {
      ASSERT_LT(i, 10000) << "the engine does not come to an end";
    }
  }

  Json completion(const Json& body) {
    const Client client = post("/v1/completions", body);
    run();
    EXPECT_EQ(client->status, 200) << client->body;
    return Json::parse(client->body, nullptr, false);
  }

  Rig rig;
  LetterText text;
  FakeHttp http;
  RequestDefaults defaults{.sampling = {}, .max_tokens = 16, .stop = {}, .ignore_eos = false};
  ModelServer server;
  EngineLoop loop;
  Status status;  // of the last step

 private:
  int32_t max_running_requests_;
  std::vector<RequestEvent> events_;
};

// The error of an answer in OpenAI's shape; fails the test if it has another.
inline nlohmann::json error_of(const Answer& answer) {
  const nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, false);
  EXPECT_TRUE(body.is_object() && body.size() == 1 && body.contains("error")) << answer.body;
  if (!body.is_object() || !body.contains("error")) return {};
  const nlohmann::json& error = body["error"];
  for (const char* key : {"message", "type", "param", "code"}) {
    EXPECT_TRUE(error.contains(key)) << key << " in " << answer.body;
  }
  return error;
}

// The data of server-sent events, in order; "[DONE]" as a string.
inline std::vector<nlohmann::json> records_of(const std::string& body) {
  std::vector<nlohmann::json> records;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    EXPECT_EQ(body.compare(at, 6, "data: "), 0) << body.substr(at);
    EXPECT_NE(end, std::string::npos) << body.substr(at);
    if (end == std::string::npos) break;
    const std::string data = body.substr(at + 6, end - at - 6);
    records.push_back(data == "[DONE]" ? nlohmann::json(data) : nlohmann::json::parse(data));
    at = end + 2;
  }
  return records;
}

}  // namespace encore::fake
