#include "model/model_files.h"

#include <new>
#include <utility>

#include "model/directory.h"
#include "model/gguf.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/json_reader.h"
#include "model/model_weights.h"
#include "model/printable.h"
#include "model/safetensors.h"
#include "model/text_assets.h"

namespace encore {
namespace {

constexpr int64_t kMaxConfigBytes = 4 << 20;

Result<ModelFiles> open_gguf_model(const std::string& path) {
  ModelFiles model;
  ENCORE_ASSIGN_OR_RETURN(GgufFiles files, open_gguf(path));
  ENCORE_ASSIGN_OR_RETURN(model.spec, read_gguf_config(files, path));
  ENCORE_ASSIGN_OR_RETURN(model.weights, bind_weights(model.spec, std::move(files.store),
                                                      NameStyle::kGguf, model.notes));
  ENCORE_RETURN_IF_ERROR(read_gguf_text(std::move(files.metadata), path, model));
  return model;
}

Result<ModelFiles> open_hf_model(const std::string& directory) {
  ModelFiles model;
  const std::string config_path = join_path(directory, "config.json");
  ENCORE_ASSIGN_OR_RETURN(const std::string text, read_text_file(config_path, kMaxConfigBytes));
  ENCORE_ASSIGN_OR_RETURN(HfConfig config, read_hf_config(text, config_path));
  model.spec = std::move(config.spec);
  model.notes = std::move(config.notes);
  ENCORE_ASSIGN_OR_RETURN(TensorStore store, open_safetensors_directory(directory, model.notes));
  ENCORE_ASSIGN_OR_RETURN(model.weights, bind_weights(model.spec, std::move(store),
                                                      NameStyle::kHuggingFace, model.notes));
  ENCORE_RETURN_IF_ERROR(read_hf_text(directory, config.eos_ids, model));
  return model;
}

// The one GGUF model of a directory: its only file, or the first part of its only set.
Result<std::string> find_gguf(const std::string& directory) {
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_files(directory, ".gguf"));
  if (names.empty()) {
    return not_found(concat_message(
        "directory ", printable(directory),
        " holds no model: expected config.json with .safetensors files, or one .gguf file"));
  }
  const std::string& first = names.front();
  const size_t part = first.find("-00001-of-");
  for (const std::string& name : names) {
    const bool same_set = part != std::string::npos && name.size() == first.size() &&
                          name.compare(0, part, first, 0, part) == 0 &&
                          name.compare(part + 6, std::string::npos, first, part + 6) == 0;
    if (name != first && !same_set) {
      return invalid_argument(concat_message("directory ", printable(directory),
                                             " holds several models, ", printable(first), " and ",
                                             printable(name), "; name the file"));
    }
  }
  return join_path(directory, first);
}

Result<ModelFiles> open_any(const std::string& path) {
  if (!is_directory(path)) {
    if (path.ends_with(".safetensors") || path.ends_with(".json")) {
      return invalid_argument(
          concat_message(printable(path), " is one file of a model; name its directory"));
    }
    return open_gguf_model(path);
  }
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> tensors, list_files(path, ".safetensors"));
  const bool has_config = is_file(join_path(path, "config.json"));
  if (has_config && !tensors.empty()) return open_hf_model(path);
  // Without weights of its own, config.json only accompanies a GGUF file.
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> ggufs, list_files(path, ".gguf"));
  if (has_config && ggufs.empty()) return open_hf_model(path);
  ENCORE_ASSIGN_OR_RETURN(const std::string file, find_gguf(path));
  return open_gguf_model(file);
}

}  // namespace

Result<ModelFiles> open_model(const std::string& path) {
  try {
    return open_any(path);
  } catch (const std::bad_alloc&) {
    return out_of_memory("not enough memory to read the headers of model " + printable(path));
  } catch (const std::exception& error) {
    return internal_error(concat_message("reading model ", printable(path), ": ", error.what()));
  }
}

}  // namespace encore
