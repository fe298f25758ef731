// Counts every allocation of the process: a streamed token makes none.
#include <gtest/gtest.h>

#include "../allocation_counter.h"
#include "openai/reply_writer.h"
#include "reply_events.h"

namespace encore {
namespace {

// Allocations of 100 tokens, once the first one has been sent.
int64_t allocations_of_tokens(ReplyHeader header, const RequestEvent& event) {
  ReplyStream stream(std::move(header), 1, [](int32_t) { return std::string("a token"); });
  std::string out;
  stream.add(0, event, out);
  const int64_t before = num_allocations;
  for (int i = 0; i < 100; ++i) {
    out.clear();
    stream.add(0, event, out);
  }
  return num_allocations - before;
}

TEST(ReplyAllocationTest, TextAllocatesNothing) {
  const RequestEvent event = text_event("a \"token\" of 聪\n and more than fits a short string");
  EXPECT_EQ(allocations_of_tokens(chat_header(), event), 0);
  EXPECT_EQ(allocations_of_tokens(completion_header(), event), 0);
}

TEST(ReplyAllocationTest, ChatLogprobsAllocateNothing) {
  ReplyHeader header = chat_header();
  header.num_logprobs = 2;
  const RequestEvent event = logprob_event(1, -1.5F, "a token", {{1, -1.5F}, {2, -2.5F}});
  EXPECT_EQ(allocations_of_tokens(header, event), 0);
}

}  // namespace
}  // namespace encore
