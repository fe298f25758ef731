// Parts of the host that need no process of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture_table.h"
#include "exit_code.h"
#include "sampling_defaults.h"
#include "statistics.h"
#include "text_table.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

TEST(StatisticsTest, MeanDeviationAndMedian) {
  // numpy: mean, std(ddof=1), median of the same values.
  const Statistics four = statistics_of({4.0, 1.0, 2.0, 9.0});
  EXPECT_DOUBLE_EQ(four.mean, 4.0);
  EXPECT_NEAR(four.deviation, 3.559026084010437, 1e-12);
  EXPECT_DOUBLE_EQ(four.median, 3.0);
  EXPECT_DOUBLE_EQ(statistics_of({7.0}).deviation, 0.0);
  EXPECT_DOUBLE_EQ(statistics_of({3.0, 1.0, 2.0}).median, 2.0);
  EXPECT_DOUBLE_EQ(statistics_of({}).mean, 0.0);
}

TEST(TextTableTest, NumbersAreRightAlignedAndLinesHaveNoTrailingSpaces) {
  TextTable table({"name", "count", "note"});
  table.add_row({"a", "7", ""});
  table.add_row({"long name", "1200", "x"});
  EXPECT_EQ(table.text(),
            "name       count  note\n"
            "a              7\n"
            "long name   1200  x\n");
}

TEST(TextTableTest, UnitsKeepThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(95'300'000), "95.3 MB");
  EXPECT_EQ(format_bytes(999'600), "1.00 MB");
  EXPECT_EQ(format_us(850), "850 us");
  EXPECT_EQ(format_us(12'340), "12.3 ms");
  EXPECT_EQ(format_us(2'500'000), "2.50 s");
}

TEST(ExitCodeTest, WhatTheUserCanPutRightIsTwo) {
  EXPECT_EQ(exit_code_of(StatusCode::kOk), 0);
  EXPECT_EQ(exit_code_of(StatusCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code_of(StatusCode::kDataLoss), 1);
  EXPECT_EQ(exit_code_of(StatusCode::kUnavailable), 1);
}

TEST(SamplingDefaultsTest, ConfigurationBeatsTheModelBeatsBuiltIn) {
  LoadedConfig loaded;
  GenerationDefaults model;
  EXPECT_FLOAT_EQ(resolve_sampling(loaded, model, 5).temperature, 1.0F);
  model.temperature = 0.6;
  model.top_k = 40;
  model.top_p = 0.9;
  model.min_p = 0.05;
  model.repetition_penalty = 1.1;
  SamplingParams params = resolve_sampling(loaded, model, 5);
  EXPECT_FLOAT_EQ(params.temperature, 0.6F);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_FLOAT_EQ(params.top_p, 0.9F);
  EXPECT_FLOAT_EQ(params.min_p, 0.05F);
  EXPECT_FLOAT_EQ(params.repetition_penalty, 1.1F);
  EXPECT_EQ(params.seed, 5U);
  loaded.config.sampling.temperature = 0.0F;
  loaded.config.sampling.top_k = 0;
  loaded.config.sampling.seed = 9;
  loaded.config.sampling.min_p = 0.0F;
  loaded.origins["sampling.min_p"] = "a.yaml:1";
  params = resolve_sampling(loaded, model, 5);
  EXPECT_FLOAT_EQ(params.temperature, 0.0F);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_FLOAT_EQ(params.min_p, 0.0F);
  EXPECT_EQ(params.seed, 9U);
}

TEST(SamplingDefaultsTest, ModelThatDoesNotSampleIsGreedy) {
  GenerationDefaults model;
  model.do_sample = false;
  model.temperature = 0.6;
  LoadedConfig loaded;
  EXPECT_FLOAT_EQ(resolve_sampling(loaded, model, 0).temperature, 0.0F);
  loaded.config.sampling.temperature = 0.8F;
  EXPECT_FLOAT_EQ(resolve_sampling(loaded, model, 0).temperature, 0.8F);
}

TEST(CaptureTableTest, NamesBytesOfEveryBucketAndReasonsOfSkippedOnes) {
  CaptureSummary summary;
  summary.prefill_mode = PrefillMode::kFull;
  BucketReport captured;
  captured.bucket = 64;
  captured.arena_bytes = 1'500'000;
  BucketReport skipped;
  skipped.bucket = 128;
  skipped.reason = Reason::kOutOfMemory;
  skipped.message = "3 MB short";
  summary.prefill.buckets = {skipped, captured};
  EXPECT_EQ(describe_capture(summary), "prefill full, 1 buckets; decode off; 0 B");
  EXPECT_THAT(capture_table(summary), HasSubstr("1.50 MB"));
  const std::vector<std::string> lines = skipped_buckets(summary);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("prefill graph bucket 128 was not captured (out_of_memory): 3 MB "
                                  "short"));
}

}  // namespace
}  // namespace encore
