#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "model/directory.h"
#include "model/json_reader.h"
#include "model/printable.h"
#include "model/safetensors.h"

namespace encore {
namespace {

constexpr int64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

// Names of tensors by the shard that holds them.
using ShardMap = std::map<std::string, std::set<std::string>>;

Result<ShardMap> read_index(const std::string& path) {
  ENCORE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxIndexBytes));
  const std::string where = "file " + printable(path);
  ENCORE_ASSIGN_OR_RETURN(const nlohmann::json index, parse_json_object(text, where));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return data_loss(where + " has no weight_map, from tensors to files");
  }
  ShardMap shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return data_loss(concat_message(where, ": tensor ", printable(tensor), " names no file"));
    }
    const auto& name = file.get_ref<const std::string&>();
    if (name.empty() || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos || name == "." || name == "..") {
      return data_loss(concat_message(where, ": tensor ", printable(tensor), " is in file ",
                                      printable(name), "; expected a file of this directory"));
    }
    shards[name].insert(tensor);
  }
  return shards;
}

class ShardReader {
 public:
  ShardReader(const std::string& directory, std::vector<std::string>& notes)
      : directory_(directory), notes_(notes) {}

  // `expected` may be null: then all of the file's tensors are taken.
  Status add(const std::string& name, const std::set<std::string>* expected) {
    const std::string path = join_path(directory_, name);
    auto file = MappedFile::open(path);
    if (!file.ok()) {
      if (expected == nullptr || file.status().code() != StatusCode::kNotFound) {
        return file.status();
      }
      return not_found(concat_message("shard ", printable(path), ", which holds tensor ",
                                      printable(*expected->begin()), " and ", expected->size() - 1,
                                      " more according to ", kIndexName, ", is missing"));
    }
    ENCORE_ASSIGN_OR_RETURN(TensorTable tensors, read_safetensors_header(**file));
    if (expected != nullptr) ENCORE_RETURN_IF_ERROR(keep_expected(path, *expected, tensors));
    for (auto& [tensor_name, tensor] : tensors) {
      tensor.file = store_.files.size();
      store_.tensors.emplace(tensor_name, std::move(tensor));
    }
    store_.files.push_back(std::move(file).value());
    return {};
  }

  TensorStore take() { return std::move(store_); }

 private:
  // The index decides: what it expects must be there, what it does not expect here is left out.
  Status keep_expected(const std::string& path, const std::set<std::string>& expected,
                       TensorTable& tensors) {
    for (const std::string& name : expected) {
      if (tensors.find(name) == tensors.end()) {
        return not_found(concat_message("tensor ", printable(name), " is missing from file ",
                                        printable(path), ", where ", kIndexName, " expects it"));
      }
    }
    if (tensors.size() == expected.size()) return {};
    notes_.push_back(concat_message(
        "file ", printable(path), ": ", tensors.size() - expected.size(),
        " tensors are ignored, because ", kIndexName, " does not list them for this file"));
    for (auto entry = tensors.begin(); entry != tensors.end();) {
      entry = expected.count(entry->first) > 0 ? std::next(entry) : tensors.erase(entry);
    }
    return {};
  }

  const std::string& directory_;
  std::vector<std::string>& notes_;
  TensorStore store_;
};

}  // namespace

Result<TensorStore> open_safetensors_directory(const std::string& directory,
                                               std::vector<std::string>& notes) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<std::string> present, list_files(directory, ".safetensors"));
  ShardReader reader(directory, notes);
  ShardMap shards;
  if (is_file(join_path(directory, kIndexName))) {
    ENCORE_ASSIGN_OR_RETURN(shards, read_index(join_path(directory, kIndexName)));
    for (const auto& [name, tensors] : shards) ENCORE_RETURN_IF_ERROR(reader.add(name, &tensors));
  } else {
    if (std::find(present.begin(), present.end(), kSingleName) == present.end()) {
      return not_found(concat_message("directory ", printable(directory), " has neither ",
                                      kIndexName, " nor ", kSingleName));
    }
    shards[kSingleName];
    ENCORE_RETURN_IF_ERROR(reader.add(kSingleName, nullptr));
  }
  for (const std::string& name : present) {
    if (shards.find(name) == shards.end()) {
      notes.push_back(concat_message("file ", printable(join_path(directory, name)),
                                     " is ignored: it is not one of the model's files"));
    }
  }
  return reader.take();
}

}  // namespace encore
