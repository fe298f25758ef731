// Runs on the fake backend, which says it is whatever its options ask for: what the host makes of a
// device's capabilities and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class FakeDeviceTest : public ::testing::Test {
 protected:
  static std::string config(const std::string& options, const std::string& more = "") {
    return write_temporary(
        "fake.yaml", std::string("model: {path: " ENCORE_TEST_GOLDEN_MODELS "/tiny_llama}\n") +
                         "plugins: {load: [" ENCORE_FAKE_PLUGIN
                         "]}\nbackend: {name: fake, "
                         "options: {" +
                         options +
                         "}}\n"
                         "scheduler: {max_context: 64, max_running_requests: 4, "
                         "max_tokens_per_step: 64}\n"
                         "sampling: {temperature: 0, max_tokens: 12, ignore_eos: true}\n" +
                         more);
  }

  static Json run(const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"run", file, "-q", "--json", "--prompt", "a b c"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run_encore(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
};

TEST_F(FakeDeviceTest, StepsAreSubmittedAheadOnlyWhereTheDeviceRunsThemByItself) {
  const Json alone = run(config("async: false"));
  const Json ahead = run(config("async: true"));
  ASSERT_FALSE(alone.is_discarded() || ahead.is_discarded());
  EXPECT_EQ(alone["steps"]["ahead"], 0);
  EXPECT_GT(ahead["steps"]["ahead"].get<int>(), 5);
  EXPECT_EQ(alone["requests"][0]["tokens"], ahead["requests"][0]["tokens"]);
}

// Its runners are let go only after a minute.
TEST_F(FakeDeviceTest, DeviceThatIsStuckDoesNotKeepTheProcess) {
  const std::string file = config("fail_in: wait");
  const std::string chat_template = write_temporary("chat.jinja", "{{ messages[0].content }}");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", file, "--prompt", "a b c"},
        {"chat", file, "--set", "model.chat_template=" + chat_template}}) {
    const auto start = std::chrono::steady_clock::now();
    const CommandResult result = run_encore(arguments, "a b c\n");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("step did not finish"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
  }
}

TEST_F(FakeDeviceTest, KvDtypeIsTheBackendsUnlessItIsGiven) {
  EXPECT_EQ(run(config("async: false"))["memory"]["kv_dtype"], "bf16");
  EXPECT_EQ(run(config("async: false"), {"--set", "kv_cache.dtype=f32"})["memory"]["kv_dtype"],
            "f32");
  const CommandResult result = run_encore(
      {"run", config("async: false"), "--prompt", "a b c", "--set", "kv_cache.dtype=auto"});
  EXPECT_THAT(result.err, HasSubstr("in 16 pages of 16, bf16, "));
}

// 16 tokens a page, 4 pages a request, 4 requests: 16 pages of 64 bytes would be used at most. The
// device keeps 6000 bytes for driver and others, the model's weights and 64, 2000 for the arena
// and 300 a bucket.
TEST_F(FakeDeviceTest, KvCacheTakesWhatMemoryFractionLeaves) {
  const int64_t weights = run(config("memory_bytes: 100000000"))["memory"]["weight_bytes"];
  const int64_t others = 6000 + weights + 64 + 2000 + 300 * 6;  // prefill 16 32 64, decode 1 2 4
  const auto with_room_for = [&](int64_t pages, const std::string& fraction) {
    const auto total =
        static_cast<int64_t>(static_cast<double>(others + pages * 64 + 32) / std::stod(fraction));
    return config("memory_bytes: " + std::to_string(total),
                  "kv_cache: {memory_fraction: " + fraction + "}\n");
  };
  EXPECT_EQ(run(with_room_for(16, "0.5"))["memory"]["kv_bytes"], 16 * 64);
  EXPECT_EQ(run(with_room_for(99, "0.5"))["memory"]["kv_bytes"], 16 * 64);
  EXPECT_EQ(run(with_room_for(9, "0.5"))["memory"]["kv_bytes"], 9 * 64);
  EXPECT_EQ(run(with_room_for(4, "1"))["memory"]["kv_bytes"], 4 * 64);
  // Not even one request fits; the message has a value that does.
  const std::string file = with_room_for(3, "0.5");
  const CommandResult result = run_encore({"run", file, "-q", "--prompt", "a b c"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("fake.yaml:6: kv_cache.memory_fraction is 0.500"));
  const size_t at = result.err.find("raise kv_cache.memory_fraction to ");
  ASSERT_NE(at, std::string::npos) << result.err;
  const std::string value = result.err.substr(at + 34, 5);
  EXPECT_GE(run(file, {"--set", "kv_cache.memory_fraction=" + value})["memory"]["kv_bytes"],
            4 * 64);
  // What is set in tokens is not questioned.
  EXPECT_EQ(run(file, {"--set", "kv_cache.max_tokens=160"})["memory"]["kv_bytes"], 10 * 64);
}

TEST_F(FakeDeviceTest, FewerPagesAreUsedWhereTheDeviceHasNoRoom) {
  const int64_t weights = run(config("memory_bytes: 100000000"))["memory"]["weight_bytes"];
  const std::string file =
      config("memory_bytes: " + std::to_string(6000 + weights + 64 + 100 * 64));
  const CommandResult result =
      run_encore({"run", file, "--prompt", "a b c", "--set", "kv_cache.max_tokens=3200"});
  EXPECT_THAT(result.err, HasSubstr("the device has no room for 200 pages"));
}

TEST_F(FakeDeviceTest, LedgerAddsUpToWhatTheDeviceSays) {
  const Json memory = run(config("memory_bytes: 100000000"))["memory"];
  EXPECT_EQ(memory["context_bytes"], 1000);
  EXPECT_EQ(memory["arena_bytes"], 2000);
  EXPECT_EQ(memory["executable_bytes"], 6 * 300);
  EXPECT_EQ(memory["workspace_bytes"], 64);
  EXPECT_EQ(memory["other_bytes"], 0);
  EXPECT_EQ(memory["sum_bytes"], memory["device_used_bytes"]);
  EXPECT_EQ(memory["difference_percent"], 0.0);
  const CommandResult verbose =
      run_encore({"run", config("memory_bytes: 100000000"), "-v", "--prompt", "a b c"});
  EXPECT_THAT(verbose.err, HasSubstr("library context"));
  EXPECT_THAT(verbose.err, HasSubstr("the sum differs by 0.00 %"));
  // On the host's memory there is nothing to compare with.
  EXPECT_FALSE(run(config("async: false"))["memory"].contains("device_used_bytes"));
}

}  // namespace
}  // namespace encore
