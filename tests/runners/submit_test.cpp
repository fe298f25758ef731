// A batch that contradicts itself is refused before anything runs, by name and value.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

struct BadBatch {
  const char* name;
  std::function<void(OwnedBatch&)> damage;
  std::vector<std::string> words;  // of the message
};

std::vector<BadBatch> bad_batches() {
  return {
      {"token_too_large",
       [](OwnedBatch& b) { b.token_ids[3] = 260; },
       {"token_ids[3]", "260", "259"}},
      {"token_too_negative", [](OwnedBatch& b) { b.token_ids[3] = -9; }, {"token_ids[3]", "-9"}},
      {"position_skipped", [](OwnedBatch& b) { b.positions[4] = 7; }, {"positions[4]", "7"}},
      {"page_unknown", [](OwnedBatch& b) { b.page_ids[0] = 64; }, {"page_ids[0]", "64", "63"}},
      {"page_negative", [](OwnedBatch& b) { b.page_ids[0] = -1; }, {"page_ids[0]", "-1"}},
      {"kv_len_beyond_pages", [](OwnedBatch& b) { b.kv_len[0] = 17; }, {"kv_len[0]", "17", "16"}},
      {"kv_len_below_tokens", [](OwnedBatch& b) { b.kv_len[0] = 4; }, {"kv_len[0]", "4", "5"}},
      {"q_start_falls",
       [](OwnedBatch& b) {
         b.q_start = {0, 5, 3};
         b.kv_len = {5, 1};
       },
       {"q_start[2]", "3", "5"}},
      {"q_start_short", [](OwnedBatch& b) { b.q_start[1] = 4; }, {"q_start[1]", "4", "5"}},
      {"logit_row_unknown", [](OwnedBatch& b) { b.logit_rows[0] = 5; }, {"logit_rows[0]", "5"}},
      {"sampling_missing", [](OwnedBatch& b) { b.sampling.clear(); }, {"sampling", "0", "1"}},
      {"top_p_zero", [](OwnedBatch& b) { b.sampling[0].top_p = 0.0F; }, {"sampling[0]"}},
      {"valid_tokens_beyond_vocab",
       [](OwnedBatch& b) { b.num_valid_tokens = 261; },
       {"num_valid_tokens", "261", "260"}},
  };
}

class SubmitRefuses : public ::testing::TestWithParam<size_t> {};

TEST_P(SubmitRefuses, NamingFieldAndValue) {
  const BadBatch bad = bad_batches()[GetParam()];
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners runners = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence = driver.start(random_tokens(1, 5, model.spec().vocab_size));
  OwnedBatch batch = driver.batch_of({{&sequence, 5}});
  bad.damage(batch);
  std::vector<int32_t> tokens(1);
  std::vector<int32_t> row_status(1);
  StepOutput output;
  output.tokens = tokens;
  output.row_status = row_status;
  const auto before = driver.page_hashes();
  const auto ticket = runners.graphs.eager.runner->submit(batch.view(), output);
  ASSERT_FALSE(ticket.ok());
  EXPECT_EQ(ticket.status().code(), StatusCode::kInvalidArgument);
  for (const std::string& word : bad.words) {
    EXPECT_NE(ticket.status().message().find(word), std::string::npos)
        << "'" << word << "' is not in: " << ticket.status().message();
  }
  EXPECT_EQ(driver.page_hashes(), before);
  // The runner is as good as before.
  EXPECT_EQ(driver.run(*runners.graphs.eager.runner, {{&sequence, 5}}).row_status[0], 0);
}

INSTANTIATE_TEST_SUITE_P(Batches, SubmitRefuses, ::testing::Range(size_t{0}, bad_batches().size()),
                         [](const auto& param) { return bad_batches()[param.param].name; });

TEST(Submit, ATicketIsWaitedForOnce) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners runners = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence = driver.start({1, 2, 3});
  const OwnedBatch batch = driver.batch_of({{&sequence, 3}});
  std::vector<int32_t> tokens(1);
  std::vector<int32_t> row_status(1);
  StepOutput output;
  output.tokens = tokens;
  output.row_status = row_status;
  Runner& eager = *runners.graphs.eager.runner;
  const auto ticket = eager.submit(batch.view(), output);
  ASSERT_TRUE(ticket.ok());
  EXPECT_TRUE(eager.wait(*ticket, -1).ok());
  EXPECT_FALSE(eager.wait(*ticket, -1).ok());
  EXPECT_FALSE(eager.wait(*ticket + 1, -1).ok());
}

}  // namespace
}  // namespace encore::testing
