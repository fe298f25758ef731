// End to end with SmolLM2; skipped unless ENCORE_TEST_MODELS names a folder that holds
// SmolLM2-135M-Instruct.Q4_1.gguf.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ModelCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::optional<std::string> model = smollm2_path();
    if (!model) {
      GTEST_SKIP() << "set ENCORE_TEST_MODELS to a folder with SmolLM2-135M-Instruct.Q4_1.gguf";
    }
    config_ = write_temporary(
        "smollm2.yaml", "model: {path: " + *model +
                            "}\nkv_cache: {max_tokens: 4096}\nscheduler: {max_context: 1024}\n"
                            "sampling: {temperature: 0, max_tokens: 8}\n");
  }

  std::string config_;
};

TEST_F(ModelCommandTest, RunStreamsAPlausibleCompletion) {
  const CommandResult result = run_encore({"run", config_, "--prompt", "The capital of France is"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith(" Paris"));
  EXPECT_THAT(result.err, HasSubstr("time to first token"));
  EXPECT_THAT(result.err, HasSubstr("peak memory"));
}

// 46 TB, which the system would promise.
TEST_F(ModelCommandTest, AKvCacheLargerThanTheMachineIsRefused) {
  const CommandResult result =
      run_encore({"run", config_, "--prompt", "x", "--set", "kv_cache.max_tokens=2000000000"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("kv_cache.max_tokens: the KV cache would grow to "));
  EXPECT_THAT(result.err, HasSubstr("; the machine has "));
}

TEST_F(ModelCommandTest, PromptMayComeFromStdinOrAFile) {
  const CommandResult from_stdin = run_encore({"run", config_, "-q"}, "The capital of France is\n");
  const std::string file = write_temporary("prompt.txt", "The capital of France is\n");
  const CommandResult from_file = run_encore({"run", config_, "-q", "-f", file});
  EXPECT_THAT(from_stdin.out, StartsWith(" Paris"));
  EXPECT_EQ(from_stdin.out, from_file.out);
  EXPECT_EQ(from_stdin.err, "");
  EXPECT_EQ(run_encore({"run", config_, "-q"}, "").exit_code, 2);
}

TEST_F(ModelCommandTest, JsonIsOneObjectWithTokensTimingsGraphsAndMemory) {
  const CommandResult result =
      run_encore({"run", config_, "-q", "--json", "--logprobs", "2", "--prompt",
                  "The capital of France is", "--prompt", "One two three"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  ASSERT_EQ(json["requests"].size(), 2U);
  const Json& first = json["requests"][0];
  // From the `tokenizers` library.
  EXPECT_EQ(first["prompt_tokens"], Json({504, 3575, 282, 4649, 314}));
  EXPECT_EQ(first["tokens"].size(), 8U);
  EXPECT_EQ(first["tokens"][0], 7042);
  EXPECT_EQ(first["finish_reason"], "length");
  ASSERT_EQ(first["logprobs"].size(), 8U);
  EXPECT_EQ(first["logprobs"][0]["top"][0]["token"], 7042);
  EXPECT_LT(first["logprobs"][0]["logprob"].get<double>(), 0.0);
  EXPECT_GT(json["timings"]["generation_tokens_per_s"].get<double>(), 0.0);
  EXPECT_GE(json["graphs"]["replays"].get<int>(), 1);
  EXPECT_TRUE(json["graphs"]["fallbacks_by_reason"].is_object());
  EXPECT_GT(json["memory"]["peak_resident_bytes"].get<int64_t>(), 0);
  EXPECT_GT(json["capture"]["decode_buckets"].size(), 0U);
}

TEST_F(ModelCommandTest, BatchDoesNotChangeAReply) {
  const CommandResult alone =
      run_encore({"run", config_, "-q", "--prompt", "The capital of France is"});
  const CommandResult batch = run_encore(
      {"run", config_, "-q", "--prompt", "The capital of France is", "--prompt", "One two"});
  EXPECT_THAT(batch.out, StartsWith("=== 1\n" + alone.out + "=== 2\n"));
}

// Beside the weights and the KV cache, a run of four requests may take 120 MB.
TEST_F(ModelCommandTest, FourRequestsStayWithinTheMemoryBound) {
  std::vector<std::string> arguments = {"run", config_, "-q", "--json", "--max-tokens", "64"};
  for (const char* prompt : {"The sea", "Once upon a time", "def main():", "1, 2, 3,"}) {
    arguments.insert(arguments.end(), {"--prompt", prompt});
  }
  const CommandResult result = run_encore(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(*smollm2_path()));
  const auto kv_bytes = json["memory"]["kv_bytes"].get<int64_t>();
  EXPECT_LT(json["memory"]["peak_resident_bytes"].get<int64_t>(),
            file_bytes + kv_bytes + 120'000'000);
  EXPECT_LT(json["timings"]["capture_ms"].get<double>(), 500.0);
}

TEST_F(ModelCommandTest, ReportedSeedReproducesASampledText) {
  const std::vector<std::string> sampled = {"run",           config_, "-q",       "--json",
                                            "--temperature", "1",     "--prompt", "Once upon"};
  const Json first = Json::parse(run_encore(sampled).out, nullptr, false);
  ASSERT_FALSE(first.is_discarded());
  std::vector<std::string> again = sampled;
  again.insert(again.end(), {"--seed", first["requests"][0]["seed"].dump()});
  const Json second = Json::parse(run_encore(again).out, nullptr, false);
  ASSERT_FALSE(second.is_discarded());
  EXPECT_EQ(first["requests"][0]["tokens"], second["requests"][0]["tokens"]);
}

TEST_F(ModelCommandTest, PromptLongerThanTheContextNamesTheLimit) {
  std::string prompt;
  for (int i = 0; i < 2000; ++i) prompt += " word";
  const CommandResult result = run_encore({"run", config_, "-q"}, prompt);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1024"));
}

TEST_F(ModelCommandTest, ChatWorksPipedAndRemembersUntilReset) {
  const CommandResult result = run_encore(
      {"chat", config_, "-q"}, "My name is Ada.\nSay yes.\n/reset\nSay yes.\n/exit\nno\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("<|im_")));
  EXPECT_THAT(result.out, Not(HasSubstr("> ")));
  const CommandResult fresh = run_encore({"chat", config_, "-q"}, "Say yes.\n");
  ASSERT_FALSE(fresh.out.empty());
  EXPECT_THAT(result.out, ::testing::EndsWith(fresh.out));
}

// What transformers answers in float32, through the model's own template. The runner-up of the
// first token is 0.08 below it: rounding activations to 8 bits is enough to change the reply.
TEST_F(ModelCommandTest, ChatGivesTheReplyOfTransformers) {
  const CommandResult result =
      run_encore({"chat", config_, "-q"}, "What is the capital of France?\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("The capital of France is Paris."));
}

TEST_F(ModelCommandTest, RunDoesNotLoadPython) {
  const CommandResult result =
      run_encore({"run", config_, "-q", "--prompt", "One"}, "", {"LD_DEBUG=libs"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("encore_backend_cpu"));
  EXPECT_THAT(result.err, Not(HasSubstr("libpython")));
}

TEST_F(ModelCommandTest, InterruptStopsCleanlyAndKeepsWhatThereIs) {
  const CommandResult result =
      run_encore({"run", config_, "--max-tokens", "900", "--set", "sampling.ignore_eos=true",
                  "--prompt", "Once upon a time"},
                 "", {}, true);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_FALSE(result.out.empty());
  EXPECT_THAT(result.err, HasSubstr("peak memory"));
}

TEST_F(ModelCommandTest, BenchReportsEveryRunner) {
  const CommandResult result =
      run_encore({"bench", config_, "-q", "-p", "32", "-g", "4", "-b", "1,2", "-r", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  // Prompts on three kinds of runner and generation on two, at two batch sizes.
  ASSERT_EQ(json["results"].size(), 10U);
  for (const Json& row : json["results"]) {
    EXPECT_FALSE(row.contains("skipped")) << row.dump();
    EXPECT_GT(row["tokens_per_s"]["median"].get<double>(), 0.0) << row.dump();
    EXPECT_EQ(row["tokens_per_s"]["samples"].size(), 2U);
  }
  EXPECT_GT(json["limits"]["read_bytes_per_s"].get<double>(), 0.0);
}

}  // namespace
}  // namespace encore
