// The parts of `encore bench serve` that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "bench_serve_dataset.h"
#include "bench_serve_reply.h"
#include "bench_serve_report.h"
#include "bench_serve_sse.h"
#include "bench_serve_url.h"
#include "bench_serve_workload.h"
#include "run_command.h"

namespace encore {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> events_of(const std::vector<std::string>& pieces) {
  SseParser parser;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    const Status status =
        parser.feed(piece, [&events](std::string_view data) { events.emplace_back(data); });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return events;
}

// Every kind of line end, comments, other fields, data over several lines, one without a space.
constexpr const char* kStream =
    "\xEF\xBB\xBF"
    "data: one\n\n"
    ": a comment\n"
    "event: message\ndata: two\r\ndata: lines\r\n\r\n"
    "data: three\rdata:  and more\rid: 7\r\r"
    "data:four\n\n"
    "data\n\n"
    "retry: 10\n\n"
    "datum: none\n\n"
    "data: \xE2\x82\xAC: 5\n\n"
    "data: cut off\n";

TEST(SseParserTest, FindsTheSameEventsWhereverTheStreamIsSplit) {
  const std::string stream = kStream;
  const auto expected =
      ElementsAre("one", "two\nlines", "three\n and more", "four", "", "\xE2\x82\xAC: 5");
  EXPECT_THAT(events_of({stream}), expected);
  for (size_t at = 0; at <= stream.size(); ++at) {
    EXPECT_THAT(events_of({stream.substr(0, at), stream.substr(at)}), expected)
        << "split at " << at;
  }
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_THAT(events_of(bytes), expected);
}

TEST(SseParserTest, AnEndlessEventIsAnError) {
  SseParser parser;
  const std::string mebibyte(size_t{1} << 20, 'x');
  Status status;
  int32_t fed = 0;
  while (status.ok() && fed < 64) {
    ++fed;
    status = parser.feed(mebibyte, [](std::string_view) { FAIL(); });
  }
  EXPECT_EQ(fed, 17);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
}

std::string text_event(const std::string& text) {
  return "data: {\"choices\":[{\"index\":0,\"text\":\"" + text + "\",\"finish_reason\":null}]}\n\n";
}

TEST(StreamedReplyTest, TakesTimesFromRecordsWithText) {
  StreamedReply reply;
  reply.head(200);
  reply.feed(text_event("a"), 0.5);
  reply.feed(text_event(""), 0.6);  // brings nothing
  reply.feed(text_event("b") + text_event("c"), 0.75);
  reply.feed("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n", 0.8);
  reply.feed("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4}}\n\n",
             0.9);
  reply.feed("data: [DONE]\n\n", 0.95);
  const LoadRecord record = reply.finish(1.0, "");
  EXPECT_TRUE(record.ok) << record.error;
  EXPECT_EQ(record.first_token_s, 0.5);
  EXPECT_EQ(record.last_token_s, 0.75);
  EXPECT_EQ(record.end_s, 1.0);
  EXPECT_THAT(record.gaps_s, ElementsAre(0.25, 0.0));
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.output_tokens, 4);
  EXPECT_TRUE(record.usage_reported);
}

TEST(StreamedReplyTest, ReadsChatAndCountsRecordsWithoutUsage) {
  StreamedReply reply;
  reply.head(200);
  reply.feed("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
             0.1);
  reply.feed("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n", 0.2);
  reply.feed("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n", 0.3);
  reply.feed("data: {\"choices\":[{\"delta\":{}}],\"usage\":null}\n\ndata: [DONE]\n\n", 0.4);
  const LoadRecord record = reply.finish(0.5, "");
  EXPECT_TRUE(record.ok) << record.error;
  EXPECT_EQ(record.first_token_s, 0.2);
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_FALSE(record.usage_reported);
}

LoadRecord reply_to(int32_t status, const std::string& body, const std::string& broken = "") {
  StreamedReply reply;
  if (status != 0) reply.head(status);
  reply.feed(body, 0.1);
  return reply.finish(0.2, broken);
}

TEST(StreamedReplyTest, SaysWhyARequestFailed) {
  const std::string token = text_event("a");
  EXPECT_EQ(reply_to(429, "{\"error\":{\"message\":\"the queue is full\",\"type\":\"x\"}}").error,
            "the queue is full");
  EXPECT_EQ(reply_to(422, "{\"detail\":\"no such field\"}").error, "no such field");
  EXPECT_EQ(reply_to(502, "<html>Bad gateway</html>").error, "<html>Bad gateway</html>");
  EXPECT_EQ(reply_to(500, "").error, "an empty answer");
  EXPECT_EQ(reply_to(0, "", "cannot connect: refused").error, "cannot connect: refused");
  EXPECT_EQ(reply_to(200, token, "the answer broke off").error, "the answer broke off");
  EXPECT_EQ(reply_to(200, token).error, "the stream ended without [DONE]");
  EXPECT_EQ(reply_to(200, "data: [DONE]\n\n").error, "the reply has no token");
  EXPECT_EQ(reply_to(200, token + "data: {\"error\":{\"message\":\"out of pages\"}}\n\n"
                                  "data: [DONE]\n\n")
                .error,
            "out of pages");
  EXPECT_EQ(reply_to(200, "data: {\"choices\n\ndata: [DONE]\n\n").error,
            "an event that is not JSON");
  EXPECT_TRUE(reply_to(200, token + "data: [DONE]\n\n").ok);
}

// Whatever JSON comes is read without an exception.
TEST(StreamedReplyTest, TakesAnyJson) {
  for (const char* json :
       {"1", "null", "[]", "\"text\"", "{\"choices\":3}", "{\"choices\":[7]}",
        "{\"choices\":[{\"delta\":5}]}", "{\"choices\":[{\"text\":{}}]}",
        "{\"usage\":[],\"error\":null}", "{\"usage\":{\"prompt_tokens\":\"x\"}}"}) {
    const LoadRecord record =
        reply_to(200, std::string("data: ") + json + "\n\n" + text_event("a") + "data: [DONE]\n\n");
    EXPECT_TRUE(record.ok) << json << ": " << record.error;
  }
}

// numpy.percentile's results for the same numbers.
TEST(PercentilesTest, InterpolatesBetweenSortedValues) {
  std::vector<double> values;
  for (int i = 101; i <= 200; ++i) values.push_back(i);
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  const Percentiles result = percentiles_of(values);
  EXPECT_EQ(result.count, 200U);
  EXPECT_DOUBLE_EQ(result.mean, 100.5);
  EXPECT_DOUBLE_EQ(result.p50, 100.5);
  EXPECT_DOUBLE_EQ(result.p90, 180.1);
  EXPECT_DOUBLE_EQ(result.p95, 190.05);
  EXPECT_DOUBLE_EQ(result.p99, 198.01);
  EXPECT_DOUBLE_EQ(result.max, 200.0);
}

TEST(PercentilesTest, OfFewValues) {
  EXPECT_EQ(percentiles_of({}).count, 0U);
  EXPECT_EQ(percentiles_of({}).p99, 0.0);
  EXPECT_EQ(percentiles_of({3.5}).p50, 3.5);
  EXPECT_EQ(percentiles_of({3.5}).p99, 3.5);
  EXPECT_DOUBLE_EQ(percentiles_of({1.0, 2.0}).p50, 1.5);
  EXPECT_DOUBLE_EQ(percentiles_of({2.0, 1.0}).p90, 1.9);
}

LoadRecord good_record(double first_s, double last_s, double end_s, int64_t output_tokens) {
  LoadRecord record;
  record.ok = true;
  record.http_status = 200;
  record.first_token_s = first_s;
  record.last_token_s = last_s;
  record.end_s = end_s;
  record.gaps_s = {last_s - first_s};
  record.prompt_tokens = 10;
  record.output_tokens = output_tokens;
  record.usage_reported = true;
  return record;
}

LoadRecord bad_record(int32_t status, const std::string& error) {
  LoadRecord record;
  record.http_status = status;
  record.error = error;
  return record;
}

std::vector<LoadRecord> sample_records() {
  return {good_record(0.1, 0.5, 0.6, 5), bad_record(429, "full"), good_record(0.3, 1.1, 1.2, 3),
          bad_record(0, "refused"), bad_record(429, "still full")};
}

TEST(LoadSummaryTest, AddsUpWhatCompleted) {
  const LoadSummary summary = summarize(sample_records(), 4.0);
  EXPECT_EQ(summary.completed, 2);
  EXPECT_EQ(summary.failed, 3);
  EXPECT_EQ(summary.prompt_tokens, 20);
  EXPECT_EQ(summary.output_tokens, 8);
  EXPECT_DOUBLE_EQ(summary.per_second(summary.output_tokens), 2.0);
  EXPECT_DOUBLE_EQ(summary.first_token.mean, 0.2);
  EXPECT_DOUBLE_EQ(summary.end_to_end.p50, 0.9);
  EXPECT_EQ(summary.inter_token.count, 2U);
  EXPECT_DOUBLE_EQ(summary.inter_token.max, 0.8);
  // 0.4 / 4 and 0.8 / 2.
  EXPECT_DOUBLE_EQ(summary.per_output_token.mean, 0.25);
  ASSERT_EQ(summary.failures.size(), 2U);
  EXPECT_EQ(summary.failures.at(429).count, 2);
  EXPECT_EQ(summary.failures.at(429).first_message, "full");
  EXPECT_EQ(summary.failures.at(0).first_message, "refused");
}

LoadHeader sample_header() {
  LoadHeader header;
  header.url = "http://127.0.0.1:8000";
  header.model = "m";
  header.endpoint = "/v1/completions";
  header.load = "4 at a time";
  header.lengths = "prompts of 10 random ids, replies of 5 tokens";
  header.requests = 5;
  return header;
}

TEST(LoadReportTest, TableIsForPeople) {
  EXPECT_EQ(load_table(sample_header(), summarize(sample_records(), 4.0)),
            "server    http://127.0.0.1:8000/v1/completions, m\n"
            "load      5 requests, 4 at a time\n"
            "lengths   prompts of 10 random ids, replies of 5 tokens\n"
            "duration  4.00 s\n"
            "requests  2 completed (0.5/s), 3 failed\n"
            "input     20 tokens, 5.0/s\n"
            "output    8 tokens, 2.0/s\n"
            "failed    no answer: 1, first: refused\n"
            "failed    HTTP 429: 2, first: full\n"
            "\n"
            "                         mean     p50     p90     p95     p99     max\n"
            "time to first token    200 ms  200 ms  280 ms  290 ms  298 ms  300 ms\n"
            "inter-token            600 ms  600 ms  760 ms  780 ms  796 ms  800 ms\n"
            "time per output token  250 ms  250 ms  370 ms  385 ms  397 ms  400 ms\n"
            "end to end             900 ms  900 ms  1.14 s  1.17 s  1.19 s  1.20 s\n");
}

TEST(LoadReportTest, JsonIsForPrograms) {
  const Json json = Json::parse(load_json(sample_header(), summarize(sample_records(), 4.0)));
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["failed"], 3);
  EXPECT_EQ(json["output_tokens_per_s"], 2.0);
  EXPECT_EQ(json["failures"][1]["http_status"], 429);
  EXPECT_EQ(json["failures"][1]["count"], 2);
  EXPECT_DOUBLE_EQ(json["time_to_first_token"]["mean_ms"].get<double>(), 200.0);
  EXPECT_DOUBLE_EQ(json["inter_token"]["p99_ms"].get<double>(), 796.0);
  EXPECT_EQ(json["end_to_end"]["count"], 2);
  EXPECT_EQ(json["output_lengths"]["mean"], 4.0);
}

TEST(LoadReportTest, NothingCompletedHasNoPercentiles) {
  const LoadSummary summary = summarize({bad_record(503, "loading")}, 0.0);
  const std::string table = load_table(sample_header(), summary);
  EXPECT_THAT(table, HasSubstr("0 completed (0.0/s), 1 failed\n"));
  EXPECT_THAT(table, HasSubstr("failed    HTTP 503: 1, first: loading\n"));
  EXPECT_THAT(table, Not(HasSubstr("p99")));
}

TEST(ServerUrlTest, ReadsBaseUrls) {
  const auto text = [](const char* url) {
    const Result<ServerUrl> read = parse_server_url(url);
    return read.ok() ? read->text() : read.status().message();
  };
  EXPECT_EQ(text("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
  EXPECT_EQ(text("http://127.0.0.1:8000/"), "http://127.0.0.1:8000");
  EXPECT_EQ(text("http://127.0.0.1:8000/v1/"), "http://127.0.0.1:8000");
  EXPECT_EQ(text("http://example.org/models/a/v1"), "http://example.org:80/models/a");
  EXPECT_EQ(text("http://[::1]:9000"), "http://[::1]:9000");
  EXPECT_EQ(parse_server_url("http://[::1]:9000")->host, "::1");
  EXPECT_THAT(text("https://example.org"), HasSubstr("https is not spoken"));
  for (const char* bad :
       {"", "127.0.0.1:8000", "http://", "http://:80", "http://a:0", "http://a:x", "http://a:70000",
        "http://[::1", "http://[::1]9", "http://a b", "http://a/?q=1", "http://a\r\nX: y"}) {
    EXPECT_EQ(parse_server_url(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(LengthRangeTest, ReadsMeanAndSpread) {
  EXPECT_EQ(parse_length("128")->text(), "128");
  EXPECT_EQ(parse_length("128:32")->text(), "96 to 160");
  EXPECT_EQ(parse_length("8:7")->text(), "1 to 15");
  for (const char* bad : {"", "0", "-3", "8:8", "8:-1", "8:", ":8", "8x", "8:1:1", "1048577",
                          "1048576:1", "99999999999"}) {
    const Result<LengthRange> range = parse_length(bad);
    EXPECT_EQ(range.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(range.status().message(), HasSubstr(std::string("\"") + bad + "\""));
  }
}

TEST(WorkloadTest, LengthsCoverTheirRangeEvenly) {
  std::mt19937_64 random(1);
  const LengthRange range = *parse_length("10:2");
  std::map<int32_t, int> counts;
  for (int i = 0; i < 5000; ++i) ++counts[draw_length(random, range)];
  ASSERT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts.begin()->first, 8);
  EXPECT_EQ(counts.rbegin()->first, 12);
  // 1000 each; four standard deviations are 113.
  for (const auto& [length, count] : counts) EXPECT_NEAR(count, 1000, 113) << length;
}

TEST(WorkloadTest, PoissonArrivalsHaveTheRate) {
  std::mt19937_64 random(7);
  const std::vector<double> times = arrival_times(random, 20'001, 4.0);
  EXPECT_EQ(times.front(), 0.0);
  double squares = 0.0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = times[i] - times[i - 1];
    ASSERT_GE(gap, 0.0);
    squares += gap * gap;
  }
  // Gaps are exponential: mean 1/4, mean square 2/16.
  EXPECT_NEAR(times.back() / 20'000.0, 0.25, 0.01);
  EXPECT_NEAR(squares / 20'000.0, 0.125, 0.01);
}

TEST(WorkloadTest, AnInfiniteRateSendsAllAtOnce) {
  std::mt19937_64 random(7);
  EXPECT_THAT(arrival_times(random, 3, std::numeric_limits<double>::infinity()),
              ElementsAre(0.0, 0.0, 0.0));
}

TEST(WorkloadTest, TheSameSeedSendsTheSame) {
  std::mt19937_64 first(5), second(5), other(6);
  const std::string words = random_words(first, 20);
  EXPECT_EQ(words, random_words(second, 20));
  EXPECT_NE(words, random_words(other, 20));
  EXPECT_EQ(std::count(words.begin(), words.end(), ' '), 19);
  EXPECT_THAT(random_ids(first, {4, 9}, 100), SizeIs(100));
  EXPECT_THAT(random_ids(first, {4}, 3), ElementsAre(4, 4, 4));
}

TEST(WorkloadTest, BodiesAskForAStreamWithUsage) {
  LoadBodyOptions options;
  options.model = "m";
  EXPECT_EQ(
      load_body({std::vector<int32_t>{3, 4}, 9}, options),
      "{\"model\":\"m\",\"prompt\":[3,4],\"max_tokens\":9,\"temperature\":0.0,\"stream\":true,"
      "\"stream_options\":{\"include_usage\":true}}");
  options.chat = true;
  options.ignore_eos = true;
  options.temperature = 0.5;
  EXPECT_EQ(load_body({std::string("a \"b\""), 9}, options),
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"b\\\"\"}],"
            "\"max_tokens\":9,\"temperature\":0.5,\"stream\":true,"
            "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true}");
}

TEST(DatasetTest, TakesTheFirstTurnAndItsReply) {
  const std::string path = write_temporary("sharegpt.json",
                                           R"([{"id": "a", "conversations": [
             {"from": "system", "value": "Be brief."},
             {"from": "human", "value": "Hello \u20ac"},
             {"from": "gpt", "value": "Hi there"},
             {"from": "human", "value": "More"},
             {"from": "gpt", "value": "No"}]},
          {"id": "empty", "conversations": []},
          {"id": "unanswered", "conversations": [{"from": "human", "value": "Anybody?"}]},
          {"items": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]},
          {"conversations": [{"value": "Q", "from": "user", "extra": {"value": "deep"}},
                             {"from": "assistant", "value": "A"}], "model": null}])");
  const Result<std::vector<Conversation>> read = read_conversations(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].prompt, "Hello \xE2\x82\xAC");
  EXPECT_EQ((*read)[0].reply, "Hi there");
  EXPECT_EQ((*read)[1].prompt, "Q");
  EXPECT_EQ((*read)[1].reply, "A");
}

TEST(DatasetTest, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(read_conversations("/nowhere/at.json").status().code(), StatusCode::kNotFound);
  const Status broken =
      read_conversations(write_temporary("broken.json", "[{\"conversations\": [}")).status();
  EXPECT_EQ(broken.code(), StatusCode::kDataLoss);
  EXPECT_THAT(broken.message(), HasSubstr("at byte 21"));
  const Status other = read_conversations(write_temporary("other.json", "{\"data\": []}")).status();
  EXPECT_THAT(other.message(), HasSubstr("no conversation in ShareGPT's format"));
  // Nesting costs no stack.
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(read_conversations(write_temporary("deep.json", deep)).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace encore
