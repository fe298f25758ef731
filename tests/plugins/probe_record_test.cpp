// What the probe program writes is read back, and nothing else is taken for it.
#include "probe_record.h"

#include <gtest/gtest.h>

#include <random>

namespace encore {
namespace {

ProbeRecord failed_init() {
  return {.step = ProbeStep::kInit,
          .is_outcome = true,
          .code = LoadCode::kProbeSelfTest,
          .status = StatusCode::kUnavailable,
          .usable = false,
          .message = "the board does not answer"};
}

TEST(ProbeRecordTest, RecordsFollowEachOther) {
  const std::string bytes =
      encode_probe_record({.step = ProbeStep::kOpen}) + encode_probe_record(failed_init());
  std::string_view rest = bytes;
  const auto first = decode_probe_record(&rest);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->step, ProbeStep::kOpen);
  EXPECT_FALSE(first->is_outcome);
  const auto second = decode_probe_record(&rest);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->step, ProbeStep::kInit);
  EXPECT_TRUE(second->is_outcome);
  EXPECT_EQ(second->code, LoadCode::kProbeSelfTest);
  EXPECT_EQ(second->status, StatusCode::kUnavailable);
  EXPECT_EQ(second->message, "the board does not answer");
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(decode_probe_record(&rest).has_value());
}

TEST(ProbeRecordTest, PartOfARecordIsNone) {
  const std::string bytes = encode_probe_record(failed_init());
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string_view part = std::string_view(bytes).substr(0, size);
    EXPECT_FALSE(decode_probe_record(&part).has_value()) << size;
  }
}

TEST(ProbeRecordTest, MessageIsBounded) {
  ProbeRecord record = failed_init();
  record.message = std::string(100000, 'x');
  const std::string bytes = encode_probe_record(record);
  std::string_view rest = bytes;
  EXPECT_EQ(decode_probe_record(&rest)->message.size(), 16384U);
}

TEST(ProbeRecordTest, DamagedRecordsAreNoneOrBelievable) {
  const std::string whole = encode_probe_record(failed_init());
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    bytes[random() % 28] = static_cast<char>(random());  // in the header
    std::string_view rest = bytes;
    const auto record = decode_probe_record(&rest);
    if (!record) continue;
    ++taken;
    EXPECT_NE(load_code_name(record->code), "unknown");
    EXPECT_LE(record->message.size(), whole.size());
  }
  EXPECT_LT(taken, 15000);
}

}  // namespace
}  // namespace encore
