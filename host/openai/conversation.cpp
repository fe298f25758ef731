#include "openai/conversation.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "openai/generation_fields.h"

namespace encore {
namespace {

using When = RefusedField::When;

constexpr auto kRefused = std::to_array<RefusedField>({
    {"add_special_tokens", When::kTrue},  // the template writes them
    {"parse_special", When::kTrue},       // text of messages stays text
    {"chat_template"},
    {"continue_final_message", When::kTrue},
    {"documents"},
    {"function_call"},
    {"functions"},
});

std::string element_name(std::string_view array, size_t index) {
  std::string name(array);
  name.append("[").append(std::to_string(index)).append("]");
  return name;
}

// One part of a message's content: text, and nothing else. Adds its length to `text_bytes`.
void check_part(FieldReader& body, const BodyJson& part, const std::string& at,
                int64_t& text_bytes) {
  if (!part.is_object()) {
    return body.refuse_element(at, part, "an object with type \"text\" and text");
  }
  FieldReader fields(part, at);
  const BodyJson* type = fields.find("type");
  const BodyJson* text = fields.find("text");
  if (type == nullptr || !type->is_string()) {
    fields.refuse("type", "\"text\"");
  } else if (*type != "text") {
    std::string message = at;
    message.append(" is of type ").append(describe_value(*type));
    message.append("; this server takes parts of type \"text\" only");
    fields.fail(std::move(message), "type");
  } else if (text == nullptr || !text->is_string()) {
    fields.refuse("text", "a string");
  }
  if (!fields.ok()) return body.fail(*fields.error());
  text_bytes += std::ssize(text->get_ref<const std::string&>());
}

void check_content(FieldReader& body, const BodyJson& content, const std::string& at,
                   int64_t& text_bytes) {
  if (content.is_string()) {
    text_bytes += std::ssize(content.get_ref<const std::string&>());
    return;
  }
  if (!content.is_array()) {
    return body.refuse_element(at, content, "a string or an array of parts of type \"text\"");
  }
  for (size_t i = 0; i < content.size() && body.ok(); ++i) {
    check_part(body, content[i], element_name(at, i), text_bytes);
  }
}

void check_tool_calls(FieldReader& body, const BodyJson& calls, const std::string& at) {
  if (!calls.is_array()) return body.refuse_element(at, calls, "an array of objects");
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].is_object()) {
      return body.refuse_element(element_name(at, i), calls[i], "an object");
    }
  }
}

void check_message(FieldReader& body, const BodyJson& message, const std::string& at,
                   int64_t& text_bytes) {
  if (!message.is_object()) {
    return body.refuse_element(at, message, "an object with role and content");
  }
  FieldReader fields(message, at);
  const BodyJson* role = fields.find("role");
  if (role == nullptr || !role->is_string()) {
    fields.refuse("role", "a string, such as \"user\"");
    return body.fail(*fields.error());
  }
  if (const BodyJson* content = fields.find("content")) {
    check_content(body, *content, at + ".content", text_bytes);
  }
  if (const BodyJson* calls = fields.find("tool_calls")) {
    check_tool_calls(body, *calls, at + ".tool_calls");
  }
}

void read_messages(FieldReader& body, ChatInput& out) {
  const BodyJson* messages = body.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return body.refuse("messages", "an array of at least one message");
  }
  for (size_t i = 0; i < messages->size() && body.ok(); ++i) {
    check_message(body, (*messages)[i], element_name("messages", i), out.text_bytes);
  }
  out.num_messages = std::ssize(*messages);
  out.messages_json = messages->dump();
}

// Whether the model may be told of the tools.
bool read_tool_choice(FieldReader& body) {
  const BodyJson* choice = body.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  body.refuse("tool_choice", "\"auto\" or \"none\": this server cannot make the model call a tool");
  return false;
}

void check_tool(FieldReader& body, const BodyJson& tool, const std::string& at) {
  if (!tool.is_object()) return body.refuse_element(at, tool, "an object");
  FieldReader fields(tool, at);
  const BodyJson* type = fields.find("type");
  const BodyJson* function = fields.find("function");
  if (type == nullptr || *type != "function") {
    fields.refuse("type", "\"function\"");
  } else if (function == nullptr || !function->is_object()) {
    fields.refuse("function", "an object with a name");
  } else {
    FieldReader named(*function, at + ".function");
    const BodyJson* name = named.find("name");
    if (name == nullptr || !name->is_string()) named.refuse("name", "a string");
    if (!named.ok()) fields.fail(*named.error());
  }
  if (!fields.ok()) body.fail(*fields.error());
}

void read_tools(FieldReader& body, ChatInput& out) {
  const bool wanted = read_tool_choice(body);
  const BodyJson* tools = body.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return body.refuse("tools", "an array of tools");
  for (size_t i = 0; i < tools->size() && body.ok(); ++i) {
    check_tool(body, (*tools)[i], element_name("tools", i));
  }
  if (wanted && !tools->empty()) out.tools_json = tools->dump();
}

}  // namespace

void read_conversation(FieldReader& body, ChatInput& out) {
  refuse_fields(body, kRefused);
  read_messages(body, out);
  read_tools(body, out);
  body.read("add_generation_prompt", out.add_generation_prompt);
  if (const BodyJson* variables = body.find("chat_template_kwargs")) {
    if (!variables->is_object()) return body.refuse("chat_template_kwargs", "an object");
    if (!variables->empty()) out.variables_json = variables->dump();
  }
}

}  // namespace encore
