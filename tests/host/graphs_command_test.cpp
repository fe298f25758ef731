// `encore graphs`, on the CPU and a tiny model, and on a device that traces nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string config(const std::string& more) {
  return write_temporary("graphs.yaml", "model: {path: " ENCORE_TEST_GOLDEN_MODELS
                                        "/tiny_llama}\n"
                                        "scheduler: {max_context: 128, max_running_requests: 4, "
                                        "max_tokens_per_step: 64}\n" +
                                            more);
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(GraphsCommandTest, JsonHasBucketsMemoryReplaysAndATimeline) {
  const CommandResult result = run_encore({"graphs", config(""), "-q", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  ASSERT_EQ(json["capture"]["decode_buckets"].size(), 3U);
  ASSERT_EQ(json["capture"]["prefill_buckets"].size(), 3U);
  EXPECT_GT(json["memory"]["executable_bytes"].get<int64_t>(), 0);
  // Every bucket of the decode graph has run.
  std::map<int, int> replays;
  for (const Json& bucket : json["graphs"]["buckets"]) {
    if (bucket["runner"] == "decode_graph") replays[bucket["bucket"]] = bucket["replays"];
  }
  for (const int size : {1, 2, 4}) EXPECT_GT(replays[size], 0) << size;
  // One decode step of one request, of the most, and a prompt.
  ASSERT_EQ(json["steps"].size(), 3U);
  const Json& decode = json["steps"][0];
  const int nodes = json["capture"]["decode_buckets"][2]["nodes"];
  ASSERT_EQ(decode["events"].size(), static_cast<size_t>(nodes));
  std::map<std::string, int> names;
  double last_us = 0.0;
  for (const Json& event : decode["events"]) {
    ++names[event["name"]];
    EXPECT_GE(event["start_us"].get<double>(), last_us);
    last_us = event["start_us"].get<double>() + event["duration_us"].get<double>();
  }
  for (const char* name : {"embed", "layer 0 qkv", "layer 1 attention", "layer 1 down", "sample"}) {
    EXPECT_GE(names[name], 1) << name;
  }
  EXPECT_EQ(names.count("op"), 0U);
}

TEST(GraphsCommandTest, BreakablePrefillIsTracedAcrossItsSegments) {
  const CommandResult result =
      run_encore({"graphs", config("capture: {prefill: breakable}\n"), "-q", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  std::map<std::string, int> names;
  for (const Json& event : json["steps"][2]["events"]) ++names[event["name"]];
  for (const char* name : {"embed", "layer 0 attention", "layer 1 o", "sample"}) {
    EXPECT_GE(names[name], 1) << name;
  }
}

TEST(GraphsCommandTest, TableShowsBucketsLedgerReplaysAndFallbacks) {
  const CommandResult result = run_encore({"graphs", config("capture: {decode: false}\n"), "-q"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* text : {"prefill      64", "KV cache", "prefill_graph", "steps that ran eagerly",
                           "no timeline: no bucket was captured"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(GraphsCommandTest, PictureNeedsNothingFromTheNetwork) {
  const std::string file = write_temporary("graphs.html", "");
  const CommandResult result = run_encore({"graphs", config(""), "-q", "--html", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string html = read_file(file);
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, HasSubstr("layer 1 attention: "));
  EXPECT_THAT(html, HasSubstr("bucket 64"));
  EXPECT_THAT(html, HasSubstr("</html>"));
  for (const char* text : {"http:", "https:", "src=", "href=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(text)));
  }
  const CommandResult nowhere =
      run_encore({"graphs", config(""), "-q", "--html", "/nowhere/graphs.html"});
  EXPECT_EQ(nowhere.exit_code, 2);
}

TEST(GraphsCommandTest, DeviceThatTracesNothingLeavesTheTimelineOut) {
  const std::string file = write_temporary("untraced.html", "");
  const CommandResult result = run_encore({"graphs",
                                           config("plugins: {load: [" ENCORE_FAKE_PLUGIN "]}\n"
                                                  "backend: {name: fake}\n"),
                                           "-q", "--html", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no timeline: this device does not trace steps"));
  EXPECT_THAT(read_file(file), HasSubstr("No timeline: this device does not trace steps"));
}

}  // namespace
}  // namespace encore
