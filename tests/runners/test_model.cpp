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

namespace {

Result<TestModel*> loaded_model(const std::string& path) {
  static std::map<std::string, TestModel> models;
  const auto found = models.find(path);
  if (found != models.end()) return &found->second;
  TestModel model;
  ENCORE_ASSIGN_OR_RETURN(model.files, open_model(path));
  LoadOptions options;
  options.tensor_parallel_size = plugin_arguments().ranks;
  if (options.tensor_parallel_size > 1) options.tensor_parallel_rank = kAllRanks;
  ENCORE_ASSIGN_OR_RETURN(
      model.model, backend_under_test().load_model(plugin_arguments().device, model.files.spec,
                                                   *model.files.weights, options));
  return &(models[path] = std::move(model));
}

}  // namespace

TestModel& test_model(const std::string& path) {
  const auto model = loaded_model(path);
  if (!model.ok()) give_up(path, model.status());
  return **model;
}

std::string why_not_shared(const std::string& path) {
  if (plugin_arguments().ranks == 1) return "";
  const auto model = loaded_model(path);
  return model.status().code() == StatusCode::kInvalidArgument ? model.status().message() : "";
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
