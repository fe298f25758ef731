// A thousand replays cost no memory and no precision.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

// Resident memory of this process.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * 4096;
}

TEST(Replay, AThousandReplaysKeepMemoryFlatAndResultsEqual) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners runners = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  const auto tokens = random_tokens(5, 40, model.spec().vocab_size);
  Sequence sequence = driver.start(tokens);
  driver.run(*runners.graphs.prefill.runner, {{&sequence, 20, false}});
  StepResult first;
  int64_t resident = 0;
  const int32_t replays = kSanitized ? 100 : 1000;
  for (int32_t replay = 0; replay < replays; ++replay) {
    sequence.cached = 20;
    const StepResult chunk = driver.run(*runners.graphs.prefill.runner, {{&sequence, 19}});
    const StepResult step = driver.run(*runners.graphs.decode.runner, {{&sequence, 1}});
    if (replay == 0) first = step;
    if (replay == 100) resident = resident_bytes();
    ASSERT_EQ(step.logits, first.logits) << "replay " << replay;
    ASSERT_EQ(chunk.tokens.size(), 1U);
  }
  if (!kSanitized) {
    EXPECT_LE(resident_bytes() - resident, 256 * 1024);
  }
  EXPECT_TRUE(model.model->check_guards().ok());
}

// Pages may move between steps: only the page table knows where they are.
TEST(Replay, MovedPagesGiveTheSameResult) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners runners = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  const auto tokens = random_tokens(6, 50, model.spec().vocab_size);
  Sequence stays = driver.start(tokens);
  driver.run(*runners.graphs.prefill.runner, {{&stays, 49, false}});
  Sequence moves = driver.start(tokens);
  driver.run(*runners.graphs.prefill.runner, {{&moves, 49, false}});
  std::vector<PageCopy> copies;
  for (size_t i = 0; i < moves.pages.size(); ++i) {
    copies.push_back({moves.pages[i], static_cast<int32_t>(i)});
    moves.pages[i] = static_cast<int32_t>(i);
  }
  ASSERT_TRUE(runners.kv->copy_pages(copies).ok());
  const StepResult moved = driver.run(*runners.graphs.decode.runner, {{&moves, 1}});
  const StepResult stayed = driver.run(*runners.graphs.decode.runner, {{&stays, 1}});
  expect_same_logits(moved.logits[0], stayed.logits[0]);
}

TEST(Observer, SeesEveryLayerInEagerAndBreakableReplay) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  std::vector<int32_t> layers;
  std::vector<float> hidden;
  ASSERT_TRUE(model.model
                  ->set_layer_observer([&](const LayerOutput& output) {
                    layers.push_back(output.layer);
                    hidden.assign(output.hidden,
                                  output.hidden + output.num_tokens * output.hidden_size);
                  })
                  .ok());
  // The mode says full: an observer turns it into breakable, with a word in the report.
  const Runners runners = make_runners(model, small_options());
  EXPECT_GT(runners.graphs.prefill.report.buckets[0].num_segments, 1);
  StepDriver driver(model.spec(), *runners.kv);
  const auto tokens = random_tokens(7, 11, model.spec().vocab_size);
  std::vector<int32_t> expected_layers(model.spec().num_layers);
  std::iota(expected_layers.begin(), expected_layers.end(), 0);

  Sequence eager = driver.start(tokens);
  driver.run(*runners.graphs.eager.runner, {{&eager, 10}});
  EXPECT_EQ(layers, expected_layers);
  const std::vector<float> expected_hidden = hidden;
  EXPECT_EQ(hidden.size(), static_cast<size_t>(10 * model.spec().hidden_size));

  layers.clear();
  Sequence graph = driver.start(tokens);
  driver.run(*runners.graphs.prefill.runner, {{&graph, 10}});
  EXPECT_EQ(layers, expected_layers);
  EXPECT_EQ(hidden, expected_hidden);

  const OwnedBatch decode = driver.batch_of({{&graph, 1}});
  EXPECT_EQ(runners.graphs.decode.runner->check(decode.view(), StepOutput{}).reason,
            Reason::kObserved);
  ASSERT_TRUE(model.model->set_layer_observer({}).ok());
  EXPECT_EQ(runners.graphs.decode.runner->check(decode.view(), StepOutput{}).reason, Reason::kNone);
  layers.clear();
  driver.run(*runners.graphs.prefill.runner, {{&graph, 1}});
  EXPECT_TRUE(layers.empty());
}

}  // namespace
}  // namespace encore::testing
