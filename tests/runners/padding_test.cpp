// Fault G1: padding rows write into, or read from, real state.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

std::string tiny_llama() { return goldens_folder() + "/models/tiny_llama"; }

// Pages whose bytes changed between two looks.
std::set<int32_t> changed_pages(const std::vector<uint64_t>& before,
                                const std::vector<uint64_t>& after) {
  std::set<int32_t> changed;
  for (size_t page = 0; page < before.size(); ++page) {
    if (before[page] != after[page]) changed.insert(static_cast<int32_t>(page));
  }
  return changed;
}

void expect_only_own_pages(const std::set<int32_t>& changed, const std::vector<Sequence*>& live) {
  std::set<int32_t> owned;
  for (const Sequence* sequence : live)
    owned.insert(sequence->pages.begin(), sequence->pages.end());
  for (const int32_t page : changed) {
    EXPECT_TRUE(owned.contains(page)) << "page " << page << " belongs to no live request";
  }
}

// 5, then 2, live requests in a bucket of 8 with poison on. The pool is just large enough, so live
// requests own its first and its last page.
TEST(PaddingRows, TouchOnlyTheReservedPage) {
  TestModel& model = test_model(tiny_llama());
  RunnersOptions options = small_options();
  options.num_pages = 16;
  options.graphs.capture.poison = true;
  options.graphs.capture.decode_buckets = {8};
  const Runners runners = make_runners(model, options);
  const Runners reference = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  StepDriver expected(model.spec(), *reference.kv);

  std::vector<Sequence> found_sequences;
  std::vector<Sequence> expected_sequences;
  for (uint64_t i = 0; i < 8; ++i) {
    const auto prompt = random_tokens(100 + i, 10, model.spec().vocab_size);
    found_sequences.push_back(driver.start(prompt));
    expected_sequences.push_back(expected.start(prompt));
    driver.run_and_append(*runners.graphs.prefill.runner, {{&found_sequences.back(), 10}});
    expected.run_and_append(*reference.graphs.eager.runner, {{&expected_sequences.back(), 10}});
  }
  ASSERT_EQ(found_sequences[0].pages[0], 15) << "a live request must own the last page";
  for (const size_t live : {8, 5, 2}) {
    for (int32_t step = 0; step < 6; ++step) {
      std::vector<Work> work;
      std::vector<Work> expected_work;
      std::vector<Sequence*> owners;
      for (size_t i = 0; i < live; ++i) {
        driver.extend(found_sequences[i], 1);
        work.push_back({&found_sequences[i], 1});
        expected_work.push_back({&expected_sequences[i], 1});
        owners.push_back(&found_sequences[i]);
      }
      const auto before = driver.page_hashes();
      driver.run_and_append(*runners.graphs.decode.runner, work);
      expect_only_own_pages(changed_pages(before, driver.page_hashes()), owners);
      expected.run_and_append(*reference.graphs.eager.runner, expected_work);
    }
    for (size_t i = 0; i < live; ++i) {
      EXPECT_EQ(found_sequences[i].tokens, expected_sequences[i].tokens) << "request " << i;
    }
  }
}

TEST(PaddingRows, OfPrefillTouchOnlyTheReservedPage) {
  TestModel& model = test_model(tiny_llama());
  RunnersOptions options = small_options();
  options.num_pages = 4;
  options.graphs.capture.poison = true;
  options.graphs.capture.prefill_buckets = {64};
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    options.graphs.capture.prefill_mode = mode;
    const Runners runners = make_runners(model, options);
    StepDriver driver(model.spec(), *runners.kv);
    Sequence first = driver.start(random_tokens(1, 40, model.spec().vocab_size));
    driver.run(*runners.graphs.prefill.runner, {{&first, 16}});
    Sequence second = driver.start(random_tokens(2, 3, model.spec().vocab_size));
    driver.extend(second, 3);
    driver.extend(first, 5);
    const auto before = driver.page_hashes();
    driver.run(*runners.graphs.prefill.runner, {{&second, 3}, {&first, 5}});
    const auto changed = changed_pages(before, driver.page_hashes());
    expect_only_own_pages(changed, {&second, &first});
    EXPECT_FALSE(changed.contains(first.pages[0])) << "a full page of the prefix was written";
  }
}

}  // namespace
}  // namespace encore::testing
