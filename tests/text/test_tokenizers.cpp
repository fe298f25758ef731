#include "test_tokenizers.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "model/gguf.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_xz(const fs::path& path) {
  const std::string command = "xz -dc '" + path.string() + "'";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::vector<char> buffer(1 << 20);
  for (size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), count);
  }
  pclose(pipe);
  return text;
}

std::string read_maybe_xz(const fs::path& path) {
  return fs::exists(path) ? read_file(path) : read_xz(path.string() + ".xz");
}

fs::path data_folder(const std::string& name) {
  const char* data = std::getenv("ENCORE_TEST_DATA");
  return fs::path(data != nullptr ? data : "") / "tokenizers" / name;
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& name) {
  const char* models = std::getenv("ENCORE_TEST_MODELS");
  if (name == "smollm2") {
    const fs::path file =
        fs::path(models != nullptr ? models : "") / "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!fs::exists(file)) return not_found("no " + file.string() + "; set ENCORE_TEST_MODELS");
    ENCORE_ASSIGN_OR_RETURN(const GgufFiles files, open_gguf(file.string()));
    return Tokenizer::from_gguf(files.metadata);
  }
  const fs::path folder = data_folder(name);
  if (!fs::exists(folder)) return not_found("no " + folder.string() + "; set ENCORE_TEST_DATA");
  return Tokenizer::from_json(read_maybe_xz(folder / "tokenizer.json"),
                              read_maybe_xz(folder / "tokenizer_config.json"));
}

}  // namespace

const Tokenizer* test_tokenizer(const std::string& name, std::string& missing) {
  static auto* loaded = new std::map<std::string, std::unique_ptr<Tokenizer>>;
  const auto found = loaded->find(name);
  if (found != loaded->end()) return found->second.get();
  auto tokenizer = load(name);
  if (tokenizer.ok()) {
    auto& kept = (*loaded)[name];
    kept = std::move(tokenizer).value();
    return kept.get();
  }
  missing = tokenizer.status().to_string();
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound) << missing;
  return nullptr;
}

std::string test_tokenizer_json(const std::string& name) {
  return read_maybe_xz(data_folder(name) / "tokenizer.json");
}

std::string read_golden(const std::string& name) {
  return read_file(fs::path(ENCORE_TEST_GOLDENS) / name);
}

}  // namespace encore
