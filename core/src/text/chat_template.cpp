#include "text/chat_template.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "text/chat_template/library.h"

namespace encore {
namespace {

constexpr const char* kLibraryName = "libencore_chat_template.so";

LibraryText as_text(std::string_view text) { return {text.data(), text.size()}; }

// Collects what the library reports.
struct Outcome {
  PromptText prompt;
  std::string error;

  LibrarySink sink() {
    return {this,
            [](void* context, LibraryText text, const LibraryRange* ranges, size_t count) {
              PromptText& out = static_cast<Outcome*>(context)->prompt;
              out.text.assign(text.data, text.size);
              for (size_t i = 0; i < count; ++i) {
                out.control.push_back({ranges[i].begin, ranges[i].end});
              }
            },
            [](void* context, LibraryText message) {
              static_cast<Outcome*>(context)->error.assign(message.data, message.size);
            }};
  }
};

std::string special_as_json(const Tokenizer& tokenizer) {
  nlohmann::json special = nlohmann::json::object();
  for (const auto& [name, text] : tokenizer.parts().special_texts) special[name] = text;
  return special.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string control_as_json(const Tokenizer& tokenizer) {
  nlohmann::json control = nlohmann::json::array();
  for (const AddedToken& token : tokenizer.parts().added.tokens()) {
    if (token.is_control()) control.push_back(token.text);
  }
  return control.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

struct ChatTemplate::Library {
  const LibraryApi* api;

  // Loads each path once; a library is never unloaded, because Python cannot be.
  static Result<const Library*> load(const std::string& path) {
    static std::mutex mutex;
    static std::map<std::string, Library>* loaded = new std::map<std::string, Library>;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = loaded->find(path);
    if (found != loaded->end()) return &found->second;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      return unavailable("chat templates need " + path + ", which does not load: " +
                         (reason != nullptr ? reason : "unknown reason"));
    }
    const auto entry = reinterpret_cast<LibraryEntryFunction>(dlsym(handle, kLibraryEntry));
    if (entry == nullptr || entry()->version != kLibraryVersion) {
      return unavailable(path + " is not the chat template library of this version of Encore");
    }
    return &loaded->emplace(path, Library{entry()}).first->second;
  }
};

Result<std::string> find_chat_template_library() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path();
  const std::filesystem::path places[] = {folder.parent_path() / "lib" / kLibraryName,
                                          folder / kLibraryName};
  for (const auto& place : places) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return not_found("chat templates need " + std::string(kLibraryName) + "; it is neither at " +
                   places[0].string() + " nor at " + places[1].string());
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(std::string_view source,
                                                           const Tokenizer& tokenizer,
                                                           const std::string& library_path,
                                                           std::chrono::milliseconds time_limit) {
  ENCORE_ASSIGN_OR_RETURN(const Library* library, Library::load(library_path));
  Outcome outcome;
  const LibrarySink sink = outcome.sink();
  const std::string special = special_as_json(tokenizer);
  const std::string control = control_as_json(tokenizer);
  LibraryTemplate* handle =
      library->api->create(as_text(source), as_text(special), as_text(control),
                           std::chrono::duration<double>(time_limit).count(), &sink);
  if (handle == nullptr) return invalid_argument(std::move(outcome.error));
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(library, handle));
}

ChatTemplate::~ChatTemplate() { library_->api->free(static_cast<LibraryTemplate*>(handle_)); }

Result<PromptText> ChatTemplate::render(std::string_view messages_json,
                                        const RenderOptions& options) const {
  Outcome outcome;
  const LibrarySink sink = outcome.sink();
  library_->api->render(static_cast<LibraryTemplate*>(handle_), as_text(messages_json),
                        as_text(options.tools_json), options.add_generation_prompt ? 1 : 0,
                        as_text(options.variables_json), &sink);
  if (!outcome.error.empty()) return invalid_argument(std::move(outcome.error));
  outcome.prompt.parse_special = options.parse_special;
  return std::move(outcome.prompt);
}

}  // namespace encore
