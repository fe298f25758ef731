// Loads that cannot be finished: no memory, or the host has changed its mind.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>

#include "model/model_files.h"
#include "plugin_test_support.h"

namespace encore::cpu {
namespace {

// A model whose weights must be copied: more memory than when they are used where they are mapped.
class CopiedWeights final : public WeightSource {
 public:
  explicit CopiedWeights(const WeightSource& source) : source_(source) {}
  std::span<const WeightInfo> weights() const override { return source_.weights(); }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    return source_.read(index, offset, destination);
  }
  const std::byte* map(size_t) const override { return nullptr; }
  void release(size_t) const override {}

 private:
  const WeightSource& source_;
};

int64_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void limit_address_space(int64_t more_bytes) {
  const auto limit = static_cast<rlim_t>(address_space_bytes() + more_bytes);
  const rlimit both{limit, limit};
  setrlimit(RLIMIT_AS, &both);
}

class CpuLoad : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = load_best_variant();
    ASSERT_NE(backend_, nullptr);
    auto files = open_model(ENCORE_GOLDENS_FOLDER "/models/tiny_llama_linear");
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    files_ = std::move(files).value();
    weights_ = std::make_unique<CopiedWeights>(*files_.weights);
  }

  // The code of a load; the model is freed again.
  StatusCode load(const LoadOptions& load_options = {}) const {
    const auto model = backend_->load_model(0, files_.spec, *weights_, load_options);
    return model.ok() ? StatusCode::kOk : model.status().code();
  }

  std::unique_ptr<Backend> backend_;
  ModelFiles files_;
  std::unique_ptr<CopiedWeights> weights_;
};

TEST_F(CpuLoad, WithoutMemoryFailsAndSaysSo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the addresses itself";
  bool failed = false;
  bool loaded = false;
  for (int64_t more = 0; more <= int64_t{1} << 30 && !loaded; more = more == 0 ? 4096 : more * 2) {
    const int code = in_child([&]() {
      if (!backend_->init(options("2")).ok()) return 100;
      limit_address_space(more);
      try {
        return static_cast<int>(load());
      } catch (const std::bad_alloc&) {  // the host's own side of the boundary
        return static_cast<int>(StatusCode::kOutOfMemory);
      }
    });
    failed |= code == static_cast<int>(StatusCode::kOutOfMemory);
    loaded = code == static_cast<int>(StatusCode::kOk);
    EXPECT_TRUE(loaded || code == static_cast<int>(StatusCode::kOutOfMemory))
        << "with " << more << " bytes more: " << code;
  }
  EXPECT_TRUE(failed);
  EXPECT_TRUE(loaded);
}

TEST_F(CpuLoad, InitWithoutMemoryForItsThreadsFailsAndSaysSo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the addresses itself";
  const int code = in_child([&]() {
    limit_address_space(int64_t{1} << 20);  // less than a stack
    const Status status = backend_->init(options("64"));
    const bool named = status.message().find("lower backend.options.threads") != std::string::npos;
    return named ? static_cast<int>(status.code()) : 200;
  });
  EXPECT_EQ(code, static_cast<int>(StatusCode::kOutOfMemory));
}

TEST_F(CpuLoad, CancelledByProgressAtAnyCall) {
  ASSERT_TRUE(backend_->init(options("2")).ok());
  int calls = 0;
  LoadOptions counting;
  counting.progress = [&](int64_t, int64_t) { return ++calls > 0; };
  ASSERT_EQ(load(counting), StatusCode::kOk);
  ASSERT_GT(calls, 2);
  for (int last = 1; last <= calls; ++last) {
    int seen = 0;
    LoadOptions cancelling;
    cancelling.progress = [&](int64_t, int64_t) { return ++seen < last; };
    EXPECT_EQ(load(cancelling), StatusCode::kCancelled) << "at call " << last;
    EXPECT_EQ(seen, last);
  }
  EXPECT_EQ(load(), StatusCode::kOk);
}

TEST_F(CpuLoad, CancelledBySeveralRanksToo) {
  ASSERT_TRUE(backend_->init(options("2")).ok());
  LoadOptions cancelling;
  cancelling.tensor_parallel_size = 2;
  cancelling.tensor_parallel_rank = kAllRanks;
  cancelling.progress = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(load(cancelling), StatusCode::kCancelled);
  cancelling.progress = nullptr;
  EXPECT_EQ(load(cancelling), StatusCode::kOk);
}

}  // namespace
}  // namespace encore::cpu
