// encore doctor [CONFIG]: checks what a run needs, one line each, with a remedy where one fails.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "chat_prompt.h"
#include "config_flags.h"
#include "exit_code.h"
#include "logging.h"
#include "model/model_files.h"
#include "open_backend.h"
#include "session.h"
#include "text_assets.h"
#include "text_table.h"
#include "verbs.h"

namespace encore {
namespace {

class Checklist {
 public:
  void ok(const std::string& what, const std::string& detail) {
    std::printf("ok    %-10s %s\n", what.c_str(), detail.c_str());
  }
  void fail(const std::string& what, const std::string& why, const std::string& remedy) {
    std::printf("FAIL  %-10s %s\n      %-10s remedy: %s\n", what.c_str(), why.c_str(), "",
                remedy.c_str());
    failed_ = true;
  }
  void skip(const std::string& what, const std::string& why) {
    std::printf("skip  %-10s %s\n", what.c_str(), why.c_str());
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

bool check_backend(const LoadedConfig& loaded, OpenBackend& open, Checklist& list) {
  Result<OpenBackend> opened = open_backend(loaded);
  if (!opened.ok()) {
    list.fail("backend", opened.status().message(),
              "run `encore plugins list`; set backend.name, backend.options or plugins.load");
    return false;
  }
  open = *std::move(opened);
  const BackendIdentity identity = open.backend->identity();
  list.ok("backend", identity.name + " " + identity.version + " is loaded and usable here");
  const int32_t device = loaded.config.backend.device;
  const Status status = open.backend->selftest(device);
  if (status.ok()) {
    const Result<DeviceInfo> info = open.backend->device_info(device);
    list.ok("device", info.ok() ? info->name + " (" + info->architecture + "), self-test passed"
                                : std::string("self-test passed"));
  } else {
    list.fail("device", "self-test: " + status.message(),
              "choose another device, or report this with the output of `encore devices`");
  }
  return true;
}

void check_memory(const LoadedConfig& loaded, const ModelFiles& files, Backend& backend,
                  Checklist& list) {
  const Result<DeviceMemory> memory = backend.device_memory(loaded.config.backend.device);
  if (!memory.ok()) {
    list.fail("memory", memory.status().message(), "run `encore devices`");
    return;
  }
  double weight_bytes = 0.0;
  for (const WeightInfo& weight : files.weights->weights()) {
    weight_bytes += static_cast<double>(weight.bytes);
  }
  const Config& config = loaded.config;
  // Where the backend chooses, two bytes an element are a fair guess.
  const DType dtype =
      config.kv_cache.dtype == DType::kInvalid ? DType::kF16 : config.kv_cache.dtype;
  const double context = static_cast<double>(
      std::min<int64_t>(config.scheduler.max_context > 0 ? config.scheduler.max_context : 4096,
                        files.spec.max_context));
  const double tokens = config.kv_cache.max_tokens > 0
                            ? static_cast<double>(config.kv_cache.max_tokens)
                            : context * config.scheduler.max_running_requests;
  const double kv_bytes = tokens * 2.0 * static_cast<double>(files.spec.num_layers) *
                          static_cast<double>(row_bytes(dtype, files.spec.kv_size()));
  const double needed = weight_bytes + kv_bytes;
  const auto free_bytes = static_cast<double>(memory->free_bytes);
  const std::string text = format_bytes(weight_bytes) + " of weights and " +
                           format_bytes(kv_bytes) + " of KV cache; " + format_bytes(free_bytes) +
                           " are free";
  if (needed <= free_bytes) {
    list.ok("memory", text);
  } else {
    list.fail("memory", text, "lower kv_cache.max_tokens or scheduler.max_context");
  }
}

void check_model(const LoadedConfig& loaded, Backend* backend, Checklist& list) {
  const std::string& path = loaded.config.model.path;
  if (path.empty()) {
    list.skip("model", "model.path is not set; name a model with --model to check it");
    return;
  }
  const Result<ModelFiles> files = open_model(path);
  if (!files.ok()) {
    list.fail("model", files.status().message(),
              "check model.path (" + loaded.origin("model.path") + ") and fetch the file again");
    return;
  }
  list.ok("model", describe_model(files->spec));
  const Result<std::unique_ptr<Tokenizer>> tokenizer = make_tokenizer(files->text);
  if (tokenizer.ok()) {
    list.ok("tokenizer", std::to_string((*tokenizer)->vocab_size()) + " tokens");
  } else {
    list.fail("tokenizer", tokenizer.status().message(),
              "put tokenizer.json beside the weights, or use a GGUF file that has one");
  }
  if (backend == nullptr) {
    list.skip("fit", "no backend to ask");
    return;
  }
  const Status fits =
      backend->check_model(loaded.config.backend.device, files->spec, files->weights->weights());
  if (fits.ok()) {
    list.ok("fit", "the device can run this model");
  } else {
    list.fail("fit", fits.message(), "choose another model or backend");
  }
  check_memory(loaded, *files, *backend, list);
}

int doctor(const ConfigFlags& flags) {
  Checklist list;
  const Result<LoadedConfig> loaded = flags.load();
  if (!loaded.ok()) {
    list.fail("config", loaded.status().message(), "correct it; `encore config keys` lists all");
    return kExitUsage;
  }
  if (loaded->config.log.level == "info") set_up_logging("warn");  // the list says it all
  list.ok("config", flags.file().empty() ? "no file given; defaults are used" : flags.file());
  OpenBackend open;
  const bool has_backend = check_backend(*loaded, open, list);
  check_model(*loaded, has_backend ? open.backend : nullptr, list);
  return list.failed() ? kExitFailure : kExitOk;
}

}  // namespace

void declare_doctor(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("doctor", "Check what a run needs");
  auto flags = std::make_shared<ConfigFlags>();
  flags->declare(*verb, ConfigFlags::File::kOptional);
  verb->callback([flags, &action] { action = [flags] { return doctor(*flags); }; });
}

}  // namespace encore
