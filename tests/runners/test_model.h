// A model on the backend under test, with what makes its runners.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/capture.h"
#include "model/model_files.h"

namespace encore::testing {

// Sanitizers keep freed memory and take ten times as long: tests do fewer rounds under them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// tests/goldens, or the folder named by ENCORE_TEST_GOLDENS where the tests were not built; and the
// folder named by ENCORE_TEST_MODELS (empty if unset).
std::string goldens_folder();
std::string models_folder();
// SmolLM2's file, or empty if ENCORE_TEST_MODELS has none.
std::string smollm2_path();

// Loaded once per path and kept: tests only read it.
struct TestModel {
  ModelFiles files;
  std::unique_ptr<Model> model;
  const ModelSpec& spec() const { return files.spec; }
};
TestModel& test_model(const std::string& path);
// Why the model cannot be divided among --ranks; empty if it can.
std::string why_not_shared(const std::string& path);

// A KV cache and the three runners on it.
struct Runners {
  std::unique_ptr<KvCache> kv;
  GraphsCapture graphs;
};

struct RunnersOptions {
  int32_t num_pages = 64;
  int32_t page_size = 16;
  DType kv_dtype = DType::kF32;
  GraphsOptions graphs;
};

// Small limits, small buckets, guards on.
RunnersOptions small_options();

Runners make_runners(TestModel& model, const RunnersOptions& options);

}  // namespace encore::testing
