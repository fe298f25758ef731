// A model's own chat template: messages in, prompt out.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "encore/status.h"
#include "text/tokenizer.h"

namespace encore {

// Where the library that embeds Jinja2 should be: in `lib` beside the running program's folder, or
// in that folder itself.
// Errors: kNotFound, naming both places.
Result<std::string> find_chat_template_library();

// What a render may be given beside the messages.
struct RenderOptions {
  std::string_view tools_json;      // array of tools, or empty
  std::string_view variables_json;  // object of extra variables (enable_thinking ...), or empty
  bool add_generation_prompt = true;
  // Control tokens spelled in messages become those tokens. Off: they stay text.
  bool parse_special = false;
};

// A Jinja2 template, rendered by Jinja2 in its sandbox, as Hugging Face transformers renders it.
//
// Only control tokens that the template itself spells are control tokens of the prompt; text of
// messages, tools and variables is text, whatever it spells (chat_template/renderer.py has the
// policy in full). RenderOptions::parse_special is the switch.
//
// Messages may have null, missing or multi-part content, empty tool_calls, and arguments as JSON
// text; they are brought to the form that the template takes.
//
// Any thread may call render(); renders take turns. Python starts with the first create(), which
// takes 0.1 to 0.3 s, and stays.
class ChatTemplate {
 public:
  // Special tokens and their names come from the tokenizer, which is not kept. A template that is
  // still at work after `time_limit` fails, here or in render().
  // Errors: kInvalidArgument for a template that does not parse, with its line, or does not end;
  // kNotFound or kUnavailable if the library or Jinja2 is missing, with the remedy.
  static Result<std::unique_ptr<ChatTemplate>> create(
      std::string_view source, const Tokenizer& tokenizer, const std::string& library_path,
      std::chrono::milliseconds time_limit = std::chrono::seconds(10));

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt, for Tokenizer::encode_prompt. `messages_json` is an array of
  // {"role": ..., "content": ...}.
  // Errors: kInvalidArgument for malformed messages and for a template that fails, raises or does
  // not end, with the template's own message.
  Result<PromptText> render(std::string_view messages_json,
                            const RenderOptions& options = {}) const;

 private:
  struct Library;

  ChatTemplate(const Library* library, void* handle) : library_(library), handle_(handle) {}

  const Library* library_;
  void* handle_;
};

}  // namespace encore
