#include "prompts.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace encore {
namespace {

Result<std::string> read_all(std::FILE* file, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) {
    if (count > kMaxPromptBytes - text.size()) {
      return invalid_argument(name + " is longer than " + std::to_string(kMaxPromptBytes) +
                              " bytes, the limit for a prompt");
    }
    text.append(buffer.data(), count);
  }
  if (std::ferror(file) != 0) {
    return invalid_argument(name + " cannot be read: " + std::strerror(errno));
  }
  return text;
}

}  // namespace

Result<std::string> read_prompt_file(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "stdin" : "prompt file " + path;
  if (is_stdin && isatty(STDIN_FILENO) == 1) {
    spdlog::info("reading the prompt from the terminal; Ctrl-D ends it");
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(nullptr, std::fclose);
  if (!is_stdin) {
    opened.reset(std::fopen(path.c_str(), "rb"));
    if (opened == nullptr) {
      return invalid_argument(name + " cannot be opened: " + std::strerror(errno));
    }
  }
  ENCORE_ASSIGN_OR_RETURN(std::string text, read_all(is_stdin ? stdin : opened.get(), name));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::vector<std::string>> collect_prompts(const std::vector<std::string>& texts,
                                                 const std::string& file) {
  std::vector<std::string> prompts = texts;
  if (!file.empty() || prompts.empty()) {
    ENCORE_ASSIGN_OR_RETURN(std::string text, read_prompt_file(file.empty() ? "-" : file));
    prompts.push_back(std::move(text));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) {
      return invalid_argument("prompt " + std::to_string(i + 1) +
                              " is empty; give --prompt, --prompt-file or text on stdin");
    }
  }
  return prompts;
}

}  // namespace encore
