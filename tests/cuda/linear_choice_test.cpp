// Which kernels are chosen by given times, and what of it the next start finds.
#include "linear_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "file_text.h"
#include "temp_folder.h"

namespace encore::gpu {
namespace {

using testing::TempFolder;

constexpr int32_t kVariants = 3;

class FakeBlas final : public Blas {
 public:
  explicit FakeBlas(std::string identity = "Some GPU, library 1")
      : identity_(std::move(identity)) {}
  int64_t workspace_bytes() const override { return 0; }
  void set_workspace(void*) override {}
  Status tune(const ProductShape&, const ProductOperands&, std::span<const void* const>,
              void*) override {
    return {};
  }
  std::string identity() const override { return identity_; }
  Status save_tuning() override { return {}; }
  Status multiply(const ProductShape&, const ProductOperands&, void*) override { return {}; }

 private:
  std::string identity_;
};

// The BLAS takes `blas` us for any product, or `tuned_blas` once it has been tuned for one; variant
// v of a kernel 10 + v. In a layer variant 2 of the product with `partner_n` outputs saves 4 us of
// the others' time.
class FakeTimes final : public LinearTimes {
 public:
  int32_t num_variants(const LinearGroup&, int32_t rows) const override {
    return rows <= 64 ? kVariants : 0;
  }
  int32_t num_tiled_variants(const LinearGroup& group, int32_t rows) const override {
    return rows > 64 && !is_logits(group.shape) ? kVariants : 0;
  }
  Status tune_blas(Blas&, const LinearGroup&, int32_t) override {
    ++tuned;
    return {};
  }
  Result<float> blas_us(Blas&, const LinearGroup&, int32_t) override { return time_of(kByBlas); }
  Result<float> streaming_us(const LinearGroup& group, int32_t rows, int32_t variant) override {
    if (is_logits(group.shape) && variant == 0) logit_rows.push_back(rows);
    return time_of(variant);
  }
  Result<float> tiled_us(const LinearGroup&, int32_t, int32_t variant) override {
    return time_of(variant);
  }
  Status prepare_layers(const ModelSpec&, const DeviceTraits&, int32_t) override { return {}; }
  Result<float> layer_us(Blas&, std::span<const LinearGroup> groups,
                         std::span<const int32_t> variants, int32_t) override {
    ++timed;
    float us = 0.0F;
    for (size_t i = 0; i < groups.size(); ++i) {
      us += us_of(variants[i]);
      if (groups[i].shape.n == partner_n && variants[i] == 2) us -= 4.0F;
    }
    layers.emplace_back(variants.begin(), variants.end());
    return us;
  }

  int32_t partner_n = 0;
  float blas = 20.0F;
  float tuned_blas = 20.0F;
  int tuned = 0;  // calls
  int timed = 0;
  std::vector<std::vector<int32_t>> layers;  // that were timed
  std::vector<int32_t> logit_rows;           // that were timed

 private:
  float us_of(int32_t variant) const {
    if (variant == kByBlas) return tuned > 0 ? tuned_blas : blas;
    return 10.0F + static_cast<float>(variant);
  }
  Result<float> time_of(int32_t variant) {
    ++timed;
    return us_of(variant);
  }
};

// qkv, o, gate_up, down, logits.
std::vector<LinearGroup> groups() {
  using lowering::Epilogue;
  return {{{96, 64, Epilogue::kNone, false}, {}, nullptr},
          {{64, 64, Epilogue::kAdd, false}, {}, nullptr},
          {{256, 64, Epilogue::kSiluMul, false}, {}, nullptr},
          {{64, 128, Epilogue::kAdd, false}, {}, nullptr},
          {{1000, 64, Epilogue::kLogits, false}, {}, nullptr}};
}

ModelSpec spec() {
  ModelSpec made;
  made.num_heads = 4;
  made.num_kv_heads = 2;
  made.head_dim = 16;
  return made;
}

class LinearChoiceTest : public ::testing::Test {
 protected:
  // A start: chooses for these numbers of rows, and keeps it.
  LinearChoice start(FakeTimes& times, const std::vector<int32_t>& grid,
                     const ModelSpec& model = spec(), int32_t max_logit_rows = 64) {
    LinearChoice choice(blas_, true, folder_.path());
    const Status chosen = choice.tune_by(times, groups(), model, {}, grid, max_logit_rows);
    EXPECT_TRUE(chosen.ok()) << chosen.to_string();
    const Status saved = choice.save();
    EXPECT_TRUE(saved.ok()) << saved.to_string();
    return choice;
  }
  static std::vector<int32_t> variants(const LinearChoice& choice, int32_t rows) {
    std::vector<int32_t> all;
    for (size_t i = 0; i < groups().size(); ++i) all.push_back(choice.variant(i, rows));
    return all;
  }
  // Exchanges a piece of the file's text.
  void edit(const std::string& from, const std::string& to) {
    const auto path = std::filesystem::directory_iterator(folder_.path())->path();
    testing::write(path, testing::with(testing::read(path), from, to));
  }

  TempFolder folder_;
  FakeBlas blas_;
};

TEST_F(LinearChoiceTest, TakesTheFastestAloneUnlessALayerIsFasterWithAnother) {
  FakeTimes alone;
  const LinearChoice first = start(alone, {1, 128});
  EXPECT_EQ(variants(first, 1), (std::vector<int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(variants(first, 128), (std::vector<int32_t>{0, 0, 0, 0, kByBlas}));

  std::filesystem::remove_all(folder_.path());
  FakeTimes together;
  together.partner_n = 256;
  const LinearChoice second = start(together, {1, 128, 256});
  EXPECT_EQ(variants(second, 1), (std::vector<int32_t>{0, 0, 2, 0, 0}));
  EXPECT_EQ(variants(second, 128), (std::vector<int32_t>{0, 0, 2, 0, kByBlas}));
  // Past 128 rows each chooses alone.
  EXPECT_EQ(variants(second, 256), (std::vector<int32_t>{0, 0, 0, 0, kByBlas}));
}

TEST_F(LinearChoiceTest, FewerRowsAreServedByTheNextLargerEntry) {
  FakeTimes times;
  times.partner_n = 256;
  const LinearChoice choice = start(times, {128, 1});
  EXPECT_EQ(choice.variant(2, 2), 2);
  EXPECT_EQ(choice.variant(4, 2), 0);
  EXPECT_EQ(choice.variant(0, 129), kByBlas);
}

TEST_F(LinearChoiceTest, LogitsChooseUpToAsManyRowsAsThereAre) {
  FakeTimes times;
  const LinearChoice choice = start(times, {1, 8, 16, 128}, spec(), 4);
  EXPECT_EQ(times.logit_rows, (std::vector<int32_t>{1, 4}));
  for (const int32_t rows : {1, 2, 3, 4}) EXPECT_EQ(choice.variant(4, rows), 0) << rows;
  EXPECT_EQ(choice.variant(4, 5), kByBlas);

  // Kept for the rows that they were timed for.
  FakeTimes same;
  start(same, {1, 8, 16, 128}, spec(), 4);
  EXPECT_EQ(same.timed, 0);
  FakeTimes more;
  start(more, {1, 8, 16, 128}, spec(), 12);
  EXPECT_EQ(more.logit_rows, (std::vector<int32_t>{8, 12}));
  FakeTimes fewer;
  start(fewer, {1, 8, 16, 128}, spec(), 8);
  EXPECT_EQ(fewer.timed, 0);
}

TEST_F(LinearChoiceTest, LogitsChooseForRowsThatAreAskedForLater) {
  FakeTimes times;
  LinearChoice choice(blas_, true, {});
  for (const int32_t max_logit_rows : {4, 12, 12}) {
    const Status chosen =
        choice.tune_by(times, groups(), spec(), {}, std::vector<int32_t>{1, 8, 16}, max_logit_rows);
    ASSERT_TRUE(chosen.ok()) << chosen.to_string();
  }
  EXPECT_EQ(times.logit_rows, (std::vector<int32_t>{1, 4, 8, 12}));
  EXPECT_EQ(variants(choice, 12), (std::vector<int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(choice.variant(4, 13), kByBlas);
}

TEST_F(LinearChoiceTest, ASecondRoundLeavesOutWhatWasFar) {
  FakeTimes times;
  times.partner_n = 256;  // of 40 us: variants 1 and 2 of a product are 2.5 and 5 % slower
  start(times, {1});
  const std::vector<int32_t> near = {1, 0, 2, 0};
  const std::vector<int32_t> far = {2, 0, 2, 0};
  EXPECT_EQ(std::count(times.layers.begin(), times.layers.end(), near), 1);
  EXPECT_EQ(std::count(times.layers.begin(), times.layers.end(), far), 0);
}

TEST_F(LinearChoiceTest, TheNextStartTimesNothing) {
  FakeTimes times;
  times.partner_n = 256;
  const LinearChoice first = start(times, {1, 128, 256});
  ASSERT_GT(times.timed, 0);
  FakeTimes others;  // which would have it choose otherwise
  const LinearChoice second = start(others, {1, 128, 256});
  EXPECT_EQ(others.timed, 0);
  for (const int32_t rows : {1, 128, 256}) {
    EXPECT_EQ(variants(second, rows), variants(first, rows)) << rows;
  }
}

TEST_F(LinearChoiceTest, ABlasFarBehindIsNotTunedForFewRows) {
  FakeTimes far;
  far.tuned_blas = 1.0F;  // as nobody will know
  EXPECT_EQ(variants(start(far, {1}), 1), (std::vector<int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(far.tuned, 0);

  std::filesystem::remove_all(folder_.path());
  FakeTimes near;
  near.blas = 12.0F;
  near.tuned_blas = 9.0F;
  EXPECT_EQ(variants(start(near, {1}), 1), (std::vector<int32_t>(5, kByBlas)));
  EXPECT_EQ(near.tuned, 5);
}

TEST_F(LinearChoiceTest, TheBlasIsTunedWhereItServes) {
  FakeTimes times;
  times.blas = times.tuned_blas = 9.0F;
  const LinearChoice first = start(times, {1, 128});
  EXPECT_EQ(variants(first, 1), (std::vector<int32_t>(5, kByBlas)));
  EXPECT_EQ(variants(first, 128), (std::vector<int32_t>(5, kByBlas)));
  // And by the next start, in case its own choices were not kept; for logits of 64 rows in the
  // place of 128, since there are no more.
  FakeTimes others;
  start(others, {1, 128});
  EXPECT_EQ(others.timed, 0);
  EXPECT_EQ(others.tuned, 5 + 5);
}

TEST_F(LinearChoiceTest, WhatIsNewIsTimedAndKeptBesides) {
  FakeTimes times;
  start(times, {1});
  FakeTimes more;
  start(more, {1, 8});
  EXPECT_GT(more.timed, 0);
  FakeTimes none;
  start(none, {8, 1});
  EXPECT_EQ(none.timed, 0);
}

TEST_F(LinearChoiceTest, OtherHeadsChooseAnew) {
  FakeTimes times;
  start(times, {1});
  ModelSpec wide = spec();
  wide.num_kv_heads = 4;
  FakeTimes others;
  start(others, {1}, wide);
  EXPECT_GT(others.timed, 0);
}

TEST_F(LinearChoiceTest, AnotherLibraryChoosesAnew) {
  FakeTimes times;
  start(times, {1});
  blas_ = FakeBlas("Some GPU, library 2");
  FakeTimes others;
  start(others, {1});
  EXPECT_GT(others.timed, 0);
}

TEST_F(LinearChoiceTest, KeptChoicesThatCannotBeAreTimedAnew) {
  const char* const layer = "[\n    0,\n    0,\n    0,\n    0\n   ]";
  for (const char* const other : {"[0, 0, 0, 3]", "[0, 0, -2, 0]", "[0, -1, 0, 0]", "[0, 0, 0]"}) {
    std::filesystem::remove_all(folder_.path());
    FakeTimes times;
    start(times, {1});
    edit(layer, other);
    FakeTimes again;
    EXPECT_EQ(variants(start(again, {1}), 1), (std::vector<int32_t>{0, 0, 0, 0, 0})) << other;
    EXPECT_GT(again.timed, 0) << other;
  }
}

TEST_F(LinearChoiceTest, NothingIsKeptWithoutAFolderOrWithoutOurKernels) {
  FakeTimes times;
  LinearChoice nowhere(blas_, true, {});
  ASSERT_TRUE(nowhere.tune_by(times, groups(), spec(), {}, std::vector<int32_t>{1}, 64).ok());
  ASSERT_TRUE(nowhere.save().ok());
  FakeTimes none;
  LinearChoice by_blas(blas_, false, folder_.path());
  ASSERT_TRUE(by_blas.tune_by(none, groups(), spec(), {}, std::vector<int32_t>{1}, 64).ok());
  ASSERT_TRUE(by_blas.save().ok());
  EXPECT_EQ(none.timed, 0);
  EXPECT_EQ(none.tuned, 5);
  EXPECT_EQ(variants(by_blas, 1), (std::vector<int32_t>(5, kByBlas)));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace encore::gpu
