#include "metrics/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>

#include "sample_metrics.h"

namespace encore {
namespace {

using testing::HasSubstr;
using testing::Not;

// What stands behind the series `encore:NAME{model_name="m"LABELS} `; empty if there is none.
std::string value_of(const std::string& text, const std::string& name,
                     const std::string& labels = {}) {
  std::string start = "encore:";
  start += name;
  start += "{model_name=\"m\"";
  start += labels;
  start += "} ";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(start, 0) == 0) return line.substr(start.size());
  }
  return {};
}

// `,le="BOUND"`
std::string below(const std::string& bound) {
  std::string label = ",le=\"";
  label += bound;
  label += "\"";
  return label;
}

TEST(ServerMetricsTest, WritesTheTextFormat) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(sample_snapshot());
  EXPECT_THAT(text, HasSubstr("# HELP encore:num_requests_running Requests in the running batch.\n"
                              "# TYPE encore:num_requests_running gauge\n"
                              "encore:num_requests_running{model_name=\"m\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE encore:generation_tokens_total counter\n"
                              "encore:generation_tokens_total{model_name=\"m\"} 6789\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE encore:time_to_first_token_seconds histogram\n"
                              "encore:time_to_first_token_seconds_count{model_name=\"m\"} 0\n"));
}

TEST(ServerMetricsTest, TakesGaugesAndCountersFromTheSnapshot) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(sample_snapshot());
  EXPECT_EQ(value_of(text, "num_requests_running"), "4");
  EXPECT_EQ(value_of(text, "num_requests_waiting"), "5");  // 3 in the engine, 2 before it
  EXPECT_EQ(value_of(text, "num_requests_tokenizing"), "2");
  EXPECT_EQ(value_of(text, "max_running_requests"), "16");
  EXPECT_EQ(value_of(text, "kv_cache_usage_perc"), "0.25");  // 20 of 80
  EXPECT_EQ(value_of(text, "kv_cache_pages", ",state=\"used\""), "20");
  EXPECT_EQ(value_of(text, "kv_cache_pages", ",state=\"cached\""), "36");
  EXPECT_EQ(value_of(text, "kv_cache_pages", ",state=\"free\""), "24");
  EXPECT_EQ(value_of(text, "kv_cache_pages_high_water"), "55");
  EXPECT_EQ(value_of(text, "cache_config_info", ",block_size=\"32\",num_gpu_blocks=\"80\""), "1");
  EXPECT_EQ(value_of(text, "prompt_tokens_total"), "16745");  // 12345 computed, 4400 found
  EXPECT_EQ(value_of(text, "num_preemptions_total"), "7");
  EXPECT_EQ(value_of(text, "prefix_cache_queries_total"), "11000");
  EXPECT_EQ(value_of(text, "prefix_cache_hits_total"), "4400");
  EXPECT_EQ(value_of(text, "prefix_cache_evictions_total"), "13");
  EXPECT_EQ(value_of(text, "steps_total"), "1001");
  EXPECT_EQ(value_of(text, "steps_ahead_total"), "900");
  EXPECT_EQ(value_of(text, "ready"), "1");
  EXPECT_EQ(value_of(text, "draining"), "0");
  EXPECT_EQ(value_of(text, "http_connections"), "31");
  EXPECT_EQ(value_of(text, "http_connections_accepted_total"), "310");
  EXPECT_EQ(value_of(text, "http_connections_refused_total"), "32");
  EXPECT_EQ(value_of(text, "http_accept_errors_total"), "36");
  EXPECT_EQ(value_of(text, "http_requests_total"), "330");
  EXPECT_EQ(value_of(text, "http_requests_refused_total"), "34");
  EXPECT_EQ(value_of(text, "http_clients_gone_total"), "35");
}

TEST(ServerMetricsTest, CountsEndsByReason) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(sample_snapshot());
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"stop\""), "21");
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"length\""), "22");
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"error\""), "23");
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"cancelled\""), "24");
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"deadline\""), "25");
}

TEST(ServerMetricsTest, SaysWhichGraphsRanAndWhyOthersDidNot) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(sample_snapshot());
  EXPECT_EQ(value_of(text, "graph_replays_total", ",bucket=\"512\",kind=\"prefill_graph\""), "160");
  EXPECT_EQ(value_of(text, "graph_replays_total", ",bucket=\"4\",kind=\"decode_graph\""), "800");
  EXPECT_EQ(value_of(text, "eager_fallbacks_total", ",reason=\"not_captured\""), "40");
  EXPECT_EQ(value_of(text, "eager_fallbacks_total", ",reason=\"slower\""), "1");
  EXPECT_EQ(value_of(text, "eager_samples_total"), "9");
  EXPECT_EQ(value_of(text, "graph_buckets_pending"), "6");
}

// An alert on a reason works before that reason has ever occurred.
TEST(ServerMetricsTest, EveryReasonIsThereFromTheStart) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(MetricsSnapshot());
  for (int32_t i = 1; i < kNumReasons; ++i) {
    std::string label = ",reason=\"";
    label += reason_name(static_cast<Reason>(i));
    label += "\"";
    EXPECT_EQ(value_of(text, "eager_fallbacks_total", label), "0") << label;
  }
  EXPECT_EQ(value_of(text, "requests_refused_total", ",status=\"429\""), "0");
  EXPECT_EQ(value_of(text, "request_success_total", ",finished_reason=\"stop\""), "0");
}

TEST(ServerMetricsTest, ShowsWhatAStepCostsTheHost) {
  ServerMetrics metrics("m");
  const std::string text = metrics.render(sample_snapshot());
  EXPECT_EQ(std::stod(value_of(text, "step_seconds_total", ",stage=\"schedule\"")), 0.0015);
  EXPECT_EQ(std::stod(value_of(text, "step_seconds_total", ",stage=\"build\"")), 0.0025);
  EXPECT_EQ(std::stod(value_of(text, "step_seconds_total", ",stage=\"submit\"")), 0.0035);
  EXPECT_EQ(std::stod(value_of(text, "step_seconds_total", ",stage=\"wait\"")), 4.0);
  EXPECT_EQ(std::stod(value_of(text, "step_seconds_total", ",stage=\"process\"")), 0.0055);
  EXPECT_DOUBLE_EQ(std::stod(value_of(text, "last_step_seconds", ",stage=\"build\"")), 2e-6);
  EXPECT_DOUBLE_EQ(std::stod(value_of(text, "last_step_seconds", ",stage=\"wait\"")), 4e-3);
}

TEST(ServerMetricsTest, CountersNeverGoBack) {
  ServerMetrics metrics("m");
  metrics.render(sample_snapshot());
  MetricsSnapshot older;
  older.engine.prompt_tokens = 12000;
  older.engine.dispatch.buckets = {{RunnerKind::kDecodeGraph, 4, 700, 0.0}};
  std::string text = metrics.render(older);
  EXPECT_EQ(value_of(text, "prompt_tokens_total"), "16745");
  EXPECT_EQ(value_of(text, "graph_replays_total", ",bucket=\"4\",kind=\"decode_graph\""), "800");
  EXPECT_EQ(value_of(text, "http_requests_total"), "330");
  EXPECT_EQ(value_of(text, "num_requests_running"), "0");  // a gauge

  MetricsSnapshot newer = sample_snapshot();
  newer.engine.prompt_tokens = 12400;
  text = metrics.render(newer);
  EXPECT_EQ(value_of(text, "prompt_tokens_total"), "16800");
}

TEST(ServerMetricsTest, CacheConfigurationIsKnownOnceThereIsACache) {
  ServerMetrics metrics("m");
  EXPECT_THAT(metrics.render(MetricsSnapshot()), Not(HasSubstr("encore:cache_config_info{")));
  EXPECT_EQ(value_of(metrics.render(MetricsSnapshot()), "kv_cache_usage_perc"), "0");
}

TEST(ServerMetricsTest, CountsRefusalsByStatus) {
  ServerMetrics metrics("m");
  metrics.refused(429);
  metrics.refused(429);
  metrics.refused(418);
  metrics.refused(-1);  // not a status at all
  const std::string text = metrics.render(MetricsSnapshot());
  EXPECT_EQ(value_of(text, "requests_refused_total", ",status=\"429\""), "2");
  EXPECT_EQ(value_of(text, "requests_refused_total", ",status=\"418\""), "1");
  EXPECT_EQ(value_of(text, "requests_refused_total", ",status=\"400\""), "1");
}

TEST(ServerMetricsTest, FirstTokenAndGapsFallIntoTheirBuckets) {
  ServerMetrics metrics("m");
  metrics.observe(token_event(1, 1, 50'000, 50'000));
  metrics.observe(token_event(2, 1, 61'000, 61'000));
  metrics.observe(token_event(1, 2, 50'000, 60'000));     // 10 ms
  metrics.observe(token_event(1, 3, 50'000, 150'000));    // 90 ms
  metrics.observe(token_event(2, 2, 61'000, 2'061'000));  // 2 s
  const std::string text = metrics.render(MetricsSnapshot());
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_count"), "2");
  EXPECT_DOUBLE_EQ(std::stod(value_of(text, "time_to_first_token_seconds_sum")), 0.111);
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_bucket", below("0.04")), "0");
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_bucket", below("0.06")), "1");
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_bucket", below("0.08")), "2");
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_bucket", below("2560")), "2");
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_bucket", below("+Inf")), "2");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_count"), "3");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_bucket", below("0.01")), "1");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_bucket", below("0.075")), "1");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_bucket", below("0.1")), "2");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_bucket", below("1")), "2");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_bucket", below("2.5")), "3");
}

TEST(ServerMetricsTest, AFinishedRequestTellsOfItsPhases) {
  ServerMetrics metrics("m");
  metrics.observe(token_event(1, 1, 410'000, 410'000));
  metrics.observe(token_event(1, 2, 410'000, 500'000));
  metrics.observe(token_event(1, 3, 410'000, 1'410'000, FinishReason::kStop));
  const std::string text = metrics.render(MetricsSnapshot());
  const auto sum = [&text](const std::string& name) {
    EXPECT_EQ(value_of(text, name + "_count"), "1") << name;
    return std::stod(value_of(text, name + "_sum"));
  };
  EXPECT_DOUBLE_EQ(sum("e2e_request_latency_seconds"), 1.41);
  EXPECT_DOUBLE_EQ(sum("request_queue_time_seconds"), 0.01);
  EXPECT_DOUBLE_EQ(sum("request_inference_time_seconds"), 1.4);
  EXPECT_DOUBLE_EQ(sum("request_prefill_time_seconds"), 0.4);
  EXPECT_DOUBLE_EQ(sum("request_decode_time_seconds"), 1.0);
  EXPECT_DOUBLE_EQ(sum("request_time_per_output_token_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(sum("request_prompt_tokens"), 100.0);
  EXPECT_DOUBLE_EQ(sum("request_generation_tokens"), 3.0);
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_count"), "2");
}

TEST(ServerMetricsTest, AReplyOfOneTokenHasNoGap) {
  ServerMetrics metrics("m");
  metrics.observe(token_event(1, 1, 20'000, 20'000, FinishReason::kLength));
  const std::string text = metrics.render(MetricsSnapshot());
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_count"), "1");
  EXPECT_EQ(value_of(text, "inter_token_latency_seconds_count"), "0");
  EXPECT_EQ(value_of(text, "request_time_per_output_token_seconds_count"), "0");
  EXPECT_EQ(value_of(text, "request_decode_time_seconds_count"), "1");
  EXPECT_EQ(metrics.num_live_requests(), 0);
}

TEST(ServerMetricsTest, ARequestCutShortLeavesTheLatenciesAlone) {
  ServerMetrics metrics("m");
  metrics.observe(end_event(1, FinishReason::kCancelled));  // never ran
  metrics.observe(token_event(2, 1, 20'000, 20'000));
  RequestEvent late = end_event(2, FinishReason::kDeadline);
  late.timings = {.scheduled_us = 10'000, .first_token_us = 20'000, .last_token_us = 20'000};
  metrics.observe(late);
  metrics.observe(end_event(3, FinishReason::kError));
  const std::string text = metrics.render(MetricsSnapshot());
  EXPECT_EQ(value_of(text, "e2e_request_latency_seconds_count"), "0");
  EXPECT_EQ(value_of(text, "request_queue_time_seconds_count"), "0");
  EXPECT_EQ(value_of(text, "request_generation_tokens_count"), "0");
  EXPECT_EQ(value_of(text, "time_to_first_token_seconds_count"), "1");
}

TEST(ServerMetricsTest, NothingIsKeptOfRequestsThatHaveEnded) {
  ServerMetrics metrics("m");
  const FinishReason ends[] = {FinishReason::kStop, FinishReason::kLength, FinishReason::kError,
                               FinishReason::kCancelled, FinishReason::kDeadline};
  for (RequestId id = 1; id <= 1000; ++id) metrics.observe(token_event(id, 1, 20'000, 20'000));
  EXPECT_EQ(metrics.num_live_requests(), 1000);
  for (RequestId id = 1; id <= 1000; ++id) {
    const FinishReason end = ends[id % 5];
    metrics.observe(id % 2 == 0 ? end_event(id, end) : token_event(id, 2, 20'000, 30'000, end));
  }
  EXPECT_EQ(metrics.num_live_requests(), 0);
}

TEST(ServerMetricsTest, EscapesTheModelsName) {
  ServerMetrics metrics("a\"b\\c\nd");
  EXPECT_THAT(metrics.render(MetricsSnapshot()),
              HasSubstr("encore:ready{model_name=\"a\\\"b\\\\c\\nd\"} 0\n"));
}

// For ThreadSanitizer.
TEST(ServerMetricsTest, IsReadWhileAnotherThreadObserves) {
  ServerMetrics metrics("m");
  std::thread reader([&metrics] {
    for (int32_t i = 0; i < 20; ++i) metrics.render(sample_snapshot());
  });
  for (RequestId id = 1; id <= 2000; ++id) {
    metrics.observe(token_event(id, 1, 20'000, 20'000));
    metrics.observe(token_event(id, 2, 20'000, 30'000, FinishReason::kStop));
    metrics.refused(418);
  }
  reader.join();
  EXPECT_EQ(value_of(metrics.render(MetricsSnapshot()), "e2e_request_latency_seconds_count"),
            "2000");
}

}  // namespace
}  // namespace encore
