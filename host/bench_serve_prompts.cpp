#include "bench_serve_prompts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bench_serve_dataset.h"
#include "interrupt.h"
#include "progress.h"

namespace encore {
namespace {

// What one token stands for in English text, if the server does not tokenize.
constexpr size_t kBytesPerToken = 4;

Status check_room(const RemoteModel& model, const LengthRange& input, const LengthRange& output) {
  const int32_t longest = input.longest() + output.longest();
  if (model.max_tokens <= 0 || longest <= model.max_tokens) return {};
  return invalid_argument("prompts and replies of up to " + std::to_string(longest) +
                          " tokens do not fit " + model.name + ", which has room for " +
                          std::to_string(model.max_tokens) +
                          ": lower --input-tokens or --output-tokens");
}

// Tokens of `text`, as near as can be known.
Result<int32_t> count_tokens(LoadClient& client, const RemoteModel& model, const std::string& text,
                             bool& exact) {
  if (exact) {
    ENCORE_ASSIGN_OR_RETURN(const std::optional<std::vector<int32_t>> ids,
                            tokenize(client, model.name, text));
    if (ids.has_value()) return static_cast<int32_t>(ids->size());
    exact = false;
  }
  return static_cast<int32_t>(text.size() / kBytesPerToken + 1);
}

// std::shuffle's result differs between standard libraries.
void shuffle(std::vector<Conversation>& conversations, std::mt19937_64& random) {
  for (size_t left = conversations.size(); left > 1; --left) {
    std::swap(conversations[left - 1], conversations[random() % left]);
  }
}

}  // namespace

Result<LoadPrompts> random_prompts(LoadClient& client, const RemoteModel& model,
                                   const LengthRange& input, const LengthRange& output, bool text,
                                   int64_t count, std::mt19937_64& random) {
  ENCORE_RETURN_IF_ERROR(check_room(model, input, output));
  std::vector<int32_t> pool;
  if (!text) {
    ENCORE_ASSIGN_OR_RETURN(std::optional<std::vector<int32_t>> ids,
                            tokenize(client, model.name, all_words()));
    if (ids.has_value()) pool = std::move(*ids);
  }
  LoadPrompts result;
  result.lengths = "prompts of " + input.text() + (pool.empty() ? " random words" : " random ids") +
                   ", replies of " + output.text() + " tokens";
  result.prompts.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    LoadPrompt prompt;
    const int32_t length = draw_length(random, input);
    if (pool.empty()) {
      prompt.text = random_words(random, length);
    } else {
      prompt.text = random_ids(random, pool, length);
    }
    prompt.max_tokens = draw_length(random, output);
    result.prompts.push_back(std::move(prompt));
  }
  return result;
}

Result<LoadPrompts> dataset_prompts(LoadClient& client, const RemoteModel& model,
                                    const std::string& path, int64_t count,
                                    std::mt19937_64& random) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<Conversation> conversations, read_conversations(path));
  shuffle(conversations, random);
  Progress progress("reading " + path, false);
  LoadPrompts result;
  bool exact = true;
  for (Conversation& conversation : conversations) {
    const auto num_prompts = static_cast<int64_t>(result.prompts.size());
    if (num_prompts == count || interrupted()) break;
    progress.update(num_prompts, count);
    ENCORE_ASSIGN_OR_RETURN(const int32_t input,
                            count_tokens(client, model, conversation.prompt, exact));
    ENCORE_ASSIGN_OR_RETURN(const int32_t output,
                            count_tokens(client, model, conversation.reply, exact));
    if (output < 1) continue;
    if (model.max_tokens > 0 && int64_t{input} + output > model.max_tokens) continue;
    result.prompts.push_back({std::move(conversation.prompt), output});
  }
  const size_t distinct = result.prompts.size();
  if (distinct == 0) {
    return invalid_argument("no conversation of " + path + " fits " + model.name +
                            ", which has room for " + std::to_string(model.max_tokens) + " tokens");
  }
  while (static_cast<int64_t>(result.prompts.size()) < count) {
    result.prompts.push_back(result.prompts[result.prompts.size() - distinct]);
  }
  result.lengths = std::to_string(std::min(static_cast<int64_t>(distinct), count)) +
                   " conversations of " + path + ", replies as long as theirs";
  if (!exact) result.lengths += " (4 bytes a token, as the server does not tokenize)";
  return result;
}

}  // namespace encore
