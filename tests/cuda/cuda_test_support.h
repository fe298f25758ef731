// What tests of the whole CUDA backend share: a backend to spoil, tiny models, memory in use.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend.h"
#include "model/model_files.h"
#include "step_driver.h"
#include "temp_folder.h"
#include "test_model.h"

namespace encore::cuda::testing {

using encore::testing::Runners;
using encore::testing::RunnersOptions;
using encore::testing::Sequence;
using encore::testing::StepDriver;
using encore::testing::StepResult;
using encore::testing::TestModel;

// Fixture: skips unless this build can use device 0. Algorithms of products are timed once a test.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;

  // A backend of its own; the allocation of that number fails, none if it is 0.
  std::unique_ptr<CudaBackend> make_backend(int64_t failing_allocation = 0) const;
  // Ends the process with a message if that fails, like test_model().
  static TestModel load(CudaBackend& backend, const std::string& name);

 private:
  gpu::testing::TempFolder tuning_;
};

// A model of tests/goldens/models.
ModelFiles open_golden(const std::string& name);

// Small limits and buckets, guards, and the KV cache in bf16.
RunnersOptions small_runners();

// A counter of Backend::stats(); fails the test if there is none of that name.
int64_t counter(const CudaBackend& backend, std::string_view name);

// Bytes free on device 0, and resident memory of this process.
int64_t free_device_bytes();
int64_t resident_bytes();

// |found - expected| / |expected| over a row of logits.
double logit_error(const std::vector<float>& found, const std::vector<float>& expected);

}  // namespace encore::cuda::testing
