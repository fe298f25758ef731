#include "cuda_test_support.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

namespace encore::cuda::testing {
namespace {

[[noreturn]] void give_up(const std::string& what, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), status.to_string().c_str());
  std::abort();
}

}  // namespace

void CudaTest::SetUp() {
  const ProbeResult probed = CudaBackend().probe();
  if (!probed.usable) GTEST_SKIP() << probed.reason;
  const auto backend = make_backend();
  const Result<DeviceInfo> info = backend->device_info(0);
  ASSERT_TRUE(info.ok()) << info.status().to_string();
  if (info->capabilities == 0) GTEST_SKIP() << "this build is not for " << info->architecture;
}

std::unique_ptr<CudaBackend> CudaTest::make_backend(int64_t failing_allocation) const {
  auto backend = std::make_unique<CudaBackend>();
  const Status status = backend->init({{"tuning_cache", tuning_.path().string()},
                                       {"fail_allocation", std::to_string(failing_allocation)}});
  if (!status.ok()) give_up("init", status);
  return backend;
}

TestModel CudaTest::load(CudaBackend& backend, const std::string& name) {
  TestModel model;
  model.files = open_golden(name);
  auto loaded = backend.load_model(0, model.files.spec, *model.files.weights, LoadOptions{});
  if (!loaded.ok()) give_up(name, loaded.status());
  model.model = std::move(loaded).value();
  return model;
}

ModelFiles open_golden(const std::string& name) {
  auto files = open_model(encore::testing::goldens_folder() + "/models/" + name);
  if (!files.ok()) give_up(name, files.status());
  return std::move(files).value();
}

RunnersOptions small_runners() {
  RunnersOptions options = encore::testing::small_options();
  options.kv_dtype = DType::kBF16;
  return options;
}

int64_t counter(const CudaBackend& backend, std::string_view name) {
  const auto stats = backend.stats();
  const auto found = std::find_if(stats.begin(), stats.end(),
                                  [&](const auto& stat) { return stat.first == name; });
  EXPECT_NE(found, stats.end()) << name;
  return found == stats.end() ? -1 : found->second;
}

int64_t free_device_bytes() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<int64_t>(free);
}

int64_t resident_bytes() {
  constexpr int64_t kPageBytes = 4096;
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * kPageBytes;
}

double logit_error(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace encore::cuda::testing
