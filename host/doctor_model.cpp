// The model's files, its tokenizer, and whether it fits the device.
#include <algorithm>
#include <memory>
#include <string>

#include "doctor.h"
#include "model/model_files.h"
#include "session.h"
#include "text_assets.h"
#include "text_table.h"

namespace encore {
namespace {

double weight_bytes_of(const ModelFiles& files) {
  double bytes = 0.0;
  for (const WeightInfo& weight : files.weights->weights()) {
    bytes += static_cast<double>(weight.bytes);
  }
  return bytes;
}

double kv_bytes_of(const Config& config, const ModelSpec& spec) {
  // Where the backend chooses, two bytes an element are a fair guess.
  const DType dtype =
      config.kv_cache.dtype == DType::kInvalid ? DType::kF16 : config.kv_cache.dtype;
  const int64_t wanted = config.scheduler.max_context > 0 ? config.scheduler.max_context : 4096;
  const auto context = static_cast<double>(std::min<int64_t>(wanted, spec.max_context));
  const double tokens = config.kv_cache.max_tokens > 0
                            ? static_cast<double>(config.kv_cache.max_tokens)
                            : context * config.scheduler.max_running_requests;
  return tokens * 2.0 * static_cast<double>(spec.num_layers) *
         static_cast<double>(row_bytes(dtype, spec.kv_size()));
}

void check_memory(const Config& config, const ModelFiles& files, const Backend& backend,
                  HealthSection& section) {
  const Result<DeviceMemory> memory = backend.device_memory(config.backend.device);
  if (!memory.ok()) {
    section.fail("memory", memory.status().message(), "run `encore devices`");
    return;
  }
  const double weight_bytes = weight_bytes_of(files);
  const double kv_bytes = kv_bytes_of(config, files.spec);
  const auto free_bytes = static_cast<double>(memory->free_bytes);
  const std::string text = format_bytes(weight_bytes) + " of weights and " +
                           format_bytes(kv_bytes) + " of KV cache; " + format_bytes(free_bytes) +
                           " are free";
  if (weight_bytes + kv_bytes <= free_bytes) {
    section.ok("memory", text);
  } else {
    section.fail("memory", text, "lower kv_cache.max_tokens or scheduler.max_context");
  }
}

void check_tokenizer(const ModelFiles& files, HealthSection& section) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = make_tokenizer(files.text);
  if (tokenizer.ok()) {
    section.ok("tokenizer", std::to_string((*tokenizer)->vocab_size()) + " tokens");
  } else {
    section.fail("tokenizer", tokenizer.status().message(),
                 "put tokenizer.json beside the weights, or use a GGUF file that has one");
  }
}

}  // namespace

HealthSection check_model_files(const Examined& examined) {
  HealthSection section{"model", "The configured model", {}, {}};
  const LoadedConfig& loaded = *examined.loaded;
  const std::string& path = loaded.config.model.path;
  if (path.empty()) {
    section.skip("model", "model.path is not set; name a model with --model to check it");
    return section;
  }
  const Result<ModelFiles> files = open_model(path);
  if (!files.ok()) {
    section.fail("model", files.status().message(),
                 "check model.path (" + loaded.origin("model.path") + ") and fetch the file again");
    return section;
  }
  section.ok("model", describe_model(files->spec));
  check_tokenizer(*files, section);
  if (!examined.backend.ok()) {
    section.skip("fit", "there is no backend to ask");
    return section;
  }
  const Backend& backend = **examined.backend;
  const Status fits =
      backend.check_model(loaded.config.backend.device, files->spec, files->weights->weights());
  if (fits.ok()) {
    section.ok("fit", "the device can run this model");
  } else {
    section.fail("fit", fits.message(), "choose another model or backend");
  }
  check_memory(loaded.config, *files, backend, section);
  return section;
}

}  // namespace encore
