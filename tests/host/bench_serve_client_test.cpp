// `encore bench serve` against a server that answers as a test tells it to.
#include "bench_serve_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench_serve_load.h"
#include "bench_serve_prompts.h"
#include "bench_serve_server.h"
#include "run_command.h"
#include "scripted_server.h"

namespace encore {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* kText = R"({"choices":[{"index":0,"text":" x"}]})";
constexpr const char* kUsage =
    R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}})";

ScriptedAnswer three_tokens() { return {http_stream({kText, kText, kText, kUsage, "[DONE]"})}; }

// A model with room for 100 tokens, a tokenizer of one id a word, replies of three tokens.
ScriptedAnswer whole_server(const ScriptedRequest& request) {
  if (request.path == "/v1/models") {
    return {{http_answer("200 OK", R"({"data":[{"id":"tiny","max_model_len":100}]})")}};
  }
  if (request.path == "/tokenize") {
    const Json body = Json::parse(request.body);
    std::istringstream words(body["prompt"].get<std::string>());
    Json tokens = Json::array();
    for (std::string word; words >> word;) tokens.push_back(1000 + tokens.size());
    return {{http_answer("200 OK", Json{{"tokens", tokens}}.dump())}};
  }
  return three_tokens();
}

std::unique_ptr<LoadClient> client_of(const std::string& url, int32_t silence_s = 60) {
  return std::move(
             LoadClient::open(*parse_server_url(url), "secret", std::chrono::seconds(silence_s)))
      .value();
}

LoadPlan plan_of(size_t requests, int32_t concurrency) {
  LoadPlan plan;
  plan.path = "/v1/completions";
  plan.bodies.assign(requests, "{}");
  plan.arrivals_s.assign(requests, 0.0);
  plan.concurrency = concurrency;
  return plan;
}

TEST(LoadClientTest, SendsEveryRequestAndReusesConnections) {
  std::vector<std::string> heads;
  ScriptedServer server([&heads](const ScriptedRequest& request) {
    heads.push_back(request.head);
    return three_tokens();
  });
  const auto client = client_of(server.url() + "/prefix");
  const LoadOutcome outcome = run_load(*client, plan_of(30, 3), "test");
  ASSERT_EQ(outcome.records.size(), 30U);
  for (const LoadRecord& record : outcome.records) {
    EXPECT_TRUE(record.ok) << record.error;
    EXPECT_EQ(record.output_tokens, 3);
    EXPECT_EQ(record.prompt_tokens, 4);
    EXPECT_THAT(record.gaps_s, SizeIs(2));
    EXPECT_LE(record.first_token_s, record.end_s);
  }
  EXPECT_LE(server.num_connections(), 3);
  EXPECT_LE(server.most_at_once(), 3);
  EXPECT_THAT(heads, Each(AllOf(HasSubstr("POST /prefix/v1/completions HTTP/1.1\r\n"),
                                HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port())),
                                HasSubstr("Authorization: Bearer secret\r\n"),
                                HasSubstr("Content-Type: application/json\r\n"))));
}

TEST(LoadClientTest, SeesTheTimeBetweenPieces) {
  ScriptedServer server([](const ScriptedRequest&) {
    ScriptedAnswer answer = three_tokens();
    answer.pause_ms = 30;
    return answer;
  });
  const auto client = client_of(server.url());
  const LoadOutcome outcome = run_load(*client, plan_of(1, 0), "test");
  ASSERT_THAT(outcome.records, SizeIs(1));
  const LoadRecord& record = outcome.records[0];
  ASSERT_TRUE(record.ok) << record.error;
  // A busy machine makes them longer, never shorter.
  EXPECT_GE(record.first_token_s, 0.030);
  EXPECT_GE(record.last_token_s, 0.089);
  EXPECT_GE(record.end_s, 0.179);
  EXPECT_GE(outcome.duration_s, record.end_s);
}

TEST(LoadClientTest, ArrivalsAreNotEarlyAndWaitForTheirTurn) {
  ScriptedServer server([](const ScriptedRequest&) { return three_tokens(); });
  const auto client = client_of(server.url());
  LoadPlan plan = plan_of(4, 1);
  plan.arrivals_s = {0.0, 0.0, 0.05, 0.2};
  const LoadOutcome outcome = run_load(*client, plan, "test");
  EXPECT_THAT(outcome.records, SizeIs(4));
  EXPECT_GE(outcome.duration_s, 0.2);
  EXPECT_EQ(server.most_at_once(), 1);
}

// A server may close a kept connection whenever it likes.
TEST(LoadClientTest, AKeptConnectionThatWasClosedIsNoFailure) {
  ScriptedServer server([](const ScriptedRequest&) {
    ScriptedAnswer answer = three_tokens();
    answer.close = true;
    return answer;
  });
  const auto client = client_of(server.url());
  const LoadOutcome outcome = run_load(*client, plan_of(10, 1), "test");
  ASSERT_THAT(outcome.records, SizeIs(10));
  for (const LoadRecord& record : outcome.records) EXPECT_TRUE(record.ok) << record.error;
  EXPECT_EQ(server.num_connections(), 10);
}

TEST(LoadClientTest, TellsFailuresApart) {
  int32_t request_number = 0;
  ScriptedServer server([&request_number](const ScriptedRequest&) -> ScriptedAnswer {
    switch (++request_number) {
      case 1:
        return {{http_answer("429 Too Many Requests", R"({"error":{"message":"full"}})")}};
      case 2: {
        ScriptedAnswer cut = three_tokens();
        cut.pieces.resize(3);
        cut.close = true;
        return cut;
      }
      case 3:
        return {{}, 0, true};  // not a byte
      case 4:
        return {{"SSH-2.0-OpenSSH\r\n\r\n"}, 0, true};
      default:
        return three_tokens();
    }
  });
  const auto client = client_of(server.url());
  const LoadOutcome outcome = run_load(*client, plan_of(5, 1), "test");
  ASSERT_THAT(outcome.records, SizeIs(5));
  EXPECT_EQ(outcome.records[0].http_status, 429);
  EXPECT_EQ(outcome.records[0].error, "full");
  EXPECT_EQ(outcome.records[1].http_status, 200);
  EXPECT_THAT(outcome.records[1].error, HasSubstr("the answer broke off"));
  EXPECT_EQ(outcome.records[2].http_status, 0);
  EXPECT_THAT(outcome.records[2].error, HasSubstr("no answer"));
  EXPECT_EQ(outcome.records[3].http_status, 0);
  EXPECT_THAT(outcome.records[3].error, HasSubstr("no answer"));
  EXPECT_TRUE(outcome.records[4].ok) << outcome.records[4].error;
}

TEST(LoadClientTest, AServerThatFallsSilentIsGivenUp) {
  ScriptedServer server([](const ScriptedRequest&) {
    ScriptedAnswer answer = three_tokens();
    answer.pieces.resize(2);
    answer.pause_ms = 2000;
    return answer;
  });
  const auto client = client_of(server.url(), 1);
  const LoadOutcome outcome = run_load(*client, plan_of(1, 0), "test");
  ASSERT_THAT(outcome.records, SizeIs(1));
  EXPECT_FALSE(outcome.records[0].ok);
  EXPECT_THAT(outcome.records[0].error, HasSubstr("the answer broke off: "));
}

// A port that nobody listens at: one that was just given up.
std::string dead_url() {
  return ScriptedServer([](const auto&) { return three_tokens(); }).url();
}

TEST(RemoteModelTest, NoServerIsAClearError) {
  const std::string url = dead_url();
  const auto client = client_of(url);
  const Status status = find_model(*client, "").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), url.substr(7) +
                                  "/v1/models: cannot connect: Connection refused; is "
                                  "the server running there?");
}

TEST(RemoteModelTest, FindsTheFirstOrTheNamedOne) {
  ScriptedServer server([](const ScriptedRequest&) -> ScriptedAnswer {
    return {{http_answer("200 OK", R"({"data":[{"id":"a","max_model_len":64},{"id":"b"}]})")}};
  });
  const auto client = client_of(server.url());
  EXPECT_EQ(find_model(*client, "")->name, "a");
  EXPECT_EQ(find_model(*client, "")->max_tokens, 64);
  EXPECT_EQ(find_model(*client, "b")->max_tokens, 0);
  EXPECT_EQ(find_model(*client, "c").status().message(),
            "the server has no model \"c\"; it has a, b");
}

TEST(RemoteModelTest, SaysWhatToDoAboutARefusal) {
  std::string status_line;
  ScriptedServer server([&status_line](const ScriptedRequest&) -> ScriptedAnswer {
    return {{http_answer(status_line, "{}")}};
  });
  const auto client = client_of(server.url());
  status_line = "401 Unauthorized";
  EXPECT_THAT(find_model(*client, "").status().message(), HasSubstr("--api-key"));
  status_line = "503 Service Unavailable";
  EXPECT_THAT(find_model(*client, "").status().message(), HasSubstr("/ready"));
}

TEST(LoadPromptsTest, AreIdsOfTheServersOwnVocabulary) {
  ScriptedServer server(whole_server);
  const auto client = client_of(server.url());
  std::mt19937_64 random(3);
  const RemoteModel model = *find_model(*client, "");
  const auto made =
      random_prompts(*client, model, *parse_length("20:5"), *parse_length("7"), false, 50, random);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->lengths, "prompts of 15 to 25 random ids, replies of 7 tokens");
  ASSERT_THAT(made->prompts, SizeIs(50));
  std::set<size_t> lengths;
  for (const LoadPrompt& prompt : made->prompts) {
    const auto& ids = std::get<std::vector<int32_t>>(prompt.text);
    lengths.insert(ids.size());
    EXPECT_THAT(ids, Each(AllOf(testing::Ge(1000), testing::Lt(1200))));
    EXPECT_EQ(prompt.max_tokens, 7);
  }
  EXPECT_EQ(*lengths.begin(), 15U);
  EXPECT_EQ(*lengths.rbegin(), 25U);
}

TEST(LoadPromptsTest, AreWordsIfTheServerDoesNotTokenize) {
  ScriptedServer server([](const ScriptedRequest&) -> ScriptedAnswer {
    return {{http_answer("404 Not Found", "{}")}};
  });
  const auto client = client_of(server.url());
  std::mt19937_64 random(3);
  const auto made =
      random_prompts(*client, {"m", 0}, *parse_length("4"), *parse_length("7"), false, 2, random);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->lengths, "prompts of 4 random words, replies of 7 tokens");
  const auto& text = std::get<std::string>(made->prompts[0].text);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 3);
}

TEST(LoadPromptsTest, MustFitTheModel) {
  ScriptedServer server(whole_server);
  const auto client = client_of(server.url());
  std::mt19937_64 random(3);
  const Status status = random_prompts(*client, {"tiny", 100}, *parse_length("50:10"),
                                       *parse_length("41"), false, 1, random)
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "prompts and replies of up to 101 tokens do not fit tiny, which has room for 100: "
            "lower --input-tokens or --output-tokens");
}

TEST(LoadPromptsTest, OfADatasetHaveTheRepliesLengths) {
  std::string longest;
  for (int i = 0; i < 100; ++i) longest += "word ";
  const Json data = {
      {{"conversations",
        {{{"from", "human"}, {"value", "one two"}}, {{"from", "gpt"}, {"value", "a b c"}}}}},
      {{"conversations",
        {{{"from", "human"}, {"value", longest}}, {{"from", "gpt"}, {"value", "too long"}}}}}};
  const std::string path = write_temporary("dataset.json", data.dump());
  ScriptedServer server(whole_server);
  const auto client = client_of(server.url());
  std::mt19937_64 random(3);
  const auto made = dataset_prompts(*client, {"tiny", 100}, path, 3, random);
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_THAT(made->prompts, SizeIs(3));  // the one that fits, again
  for (const LoadPrompt& prompt : made->prompts) {
    EXPECT_EQ(std::get<std::string>(prompt.text), "one two");
    EXPECT_EQ(prompt.max_tokens, 3);
  }
}

TEST(BenchServeCommandTest, DrivesAServerAndReports) {
  ScriptedServer server(whole_server);
  const std::string file = make_folder("bench_serve") + "/result.json";
  const CommandResult result =
      run_encore({"bench", "serve", "--url", server.url() + "/v1", "-n", "12", "-c", "2",
                  "--input-tokens", "8:2", "--output-tokens", "3", "--json", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("server    " + server.url() +
                        "/v1/completions, tiny\n"
                        "load      12 requests, 2 at a time\n"
                        "lengths   prompts of 6 to 10 random ids, replies of 3 tokens\n"));
  EXPECT_THAT(result.out, HasSubstr("requests  12 completed ("));
  EXPECT_THAT(result.out, HasSubstr("\ntime to first token "));
  std::ifstream json_file(file);
  const Json json = Json::parse(json_file);
  EXPECT_EQ(json["completed"], 12);
  EXPECT_EQ(json["failed"], 0);
  EXPECT_EQ(json["output_tokens"], 36);
  EXPECT_EQ(json["time_to_first_token"]["count"], 12);
  EXPECT_EQ(json["inter_token"]["count"], 24);
}

TEST(BenchServeCommandTest, SaysThatNoServerIsThere) {
  const CommandResult result = run_encore({"bench", "serve", "--url", dead_url()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot connect: Connection refused; is the server running"));
  EXPECT_EQ(result.out, "");
}

TEST(BenchServeCommandTest, EveryRequestRefusedIsAFailure) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.path != "/v1/completions") return whole_server(request);
    return {{http_answer("400 Bad Request", R"({"error":{"message":"no prompts today"}})")}};
  });
  std::vector<std::string> arguments = {
      "bench", "serve",           "--url", server.url(), "--input-tokens",
      "4",     "--output-tokens", "4",     "-n",         "2"};
  CommandResult result = run_encore(arguments);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("every request of the warm-up failed, the first with HTTP 400: "
                                    "no prompts today"));
  arguments.insert(arguments.end(), {"--warmup", "0"});
  result = run_encore(arguments);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("failed    HTTP 400: 2, first: no prompts today\n"));
}

TEST(BenchServeCommandTest, WrongFlagsAreUsageErrors) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--rate", "0"},
                                                {"--rate", "-1"},
                                                {"--input-tokens", "0"},
                                                {"--url", "localhost"},
                                                {"--dataset", "x.json", "--input-tokens", "3"},
                                                {"-n", "0"}}) {
    std::vector<std::string> arguments = {"bench", "serve", "--url", dead_url()};
    if (flags[0] == "--url") arguments.resize(2);
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    EXPECT_EQ(run_encore(arguments).exit_code, 2) << flags[0];
  }
}

TEST(BenchServeCommandTest, BenchItselfStillNeedsAConfiguration) {
  const CommandResult result = run_encore({"bench"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("config is required"));
  EXPECT_THAT(run_encore({"bench", "/nowhere.yaml"}).err,
              HasSubstr("/nowhere.yaml does not exist"));
}

}  // namespace
}  // namespace encore
