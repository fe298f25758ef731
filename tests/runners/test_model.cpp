#include "test_model.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "plugin_under_test.h"

namespace encore::testing {
namespace {

[[noreturn]] void give_up(const std::string& what, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), status.to_string().c_str());
  std::abort();
}

}  // namespace

std::string goldens_folder() {
  const char* folder = std::getenv("ENCORE_TEST_GOLDENS");
  return folder == nullptr ? ENCORE_GOLDENS_FOLDER : folder;
}

std::string models_folder() {
  const char* folder = std::getenv("ENCORE_TEST_MODELS");
  return folder == nullptr ? "" : folder;
}

std::string smollm2_path() {
  const std::string path = models_folder() + "/SmolLM2-135M-Instruct.Q4_1.gguf";
  return !models_folder().empty() && std::filesystem::exists(path) ? path : "";
}

TestModel& test_model(const std::string& path) {
  static std::map<std::string, TestModel> models;
  const auto found = models.find(path);
  if (found != models.end()) return found->second;
  auto files = open_model(path);
  if (!files.ok()) give_up(path, files.status());
  TestModel& model = models[path];
  model.files = std::move(files).value();
  LoadOptions options;
  options.tensor_parallel_size = plugin_arguments().ranks;
  if (options.tensor_parallel_size > 1) options.tensor_parallel_rank = kAllRanks;
  auto loaded = backend_under_test().load_model(plugin_arguments().device, model.files.spec,
                                                *model.files.weights, options);
  if (!loaded.ok()) give_up(path, loaded.status());
  model.model = std::move(loaded).value();
  return model;
}

RunnersOptions small_options() {
  RunnersOptions options;
  CaptureOptions& capture = options.graphs.capture;
  capture.limits.max_requests = 8;
  capture.limits.max_tokens = 128;
  capture.limits.max_context = 256;
  capture.limits.max_logprobs = 4;
  capture.limits.max_history = 1024;
  capture.limits.max_biases = 64;
  capture.prefill_buckets = {16, 32, 64};
  capture.decode_buckets = {1, 2, 4};
  capture.guards = true;
  return options;
}

Runners make_runners(TestModel& model, const RunnersOptions& options) {
  Runners runners;
  KvOptions kv;
  kv.num_pages = options.num_pages;
  kv.page_size = options.page_size;
  kv.dtype = options.kv_dtype;
  kv.guards = true;
  auto cache = model.model->create_kv(kv);
  if (!cache.ok()) give_up("create_kv", cache.status());
  runners.kv = std::move(cache).value();
  auto graphs = capture_graphs(*model.model, *runners.kv, options.graphs);
  if (!graphs.ok()) give_up("capture_graphs", graphs.status());
  runners.graphs = std::move(graphs).value();
  return runners;
}

}  // namespace encore::testing
