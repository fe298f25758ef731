#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace encore {
namespace {

constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[160];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// What one search needs besides the code. Not shared between threads.
struct MatchState {
  explicit MatchState(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
};

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) return invalid_argument("tokenizer pattern is not valid UTF-8");
  ENCORE_ASSIGN_OR_RETURN(const std::string translated, to_pcre2_syntax(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    return invalid_argument("tokenizer pattern \"" + std::string(pattern) +
                            "\" does not compile at byte " + std::to_string(offset) + ": " +
                            pcre2_message(error));
  }
  // Without JIT support matching is slower, and the same.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(pattern, std::shared_ptr<const void>(code, [](const void* p) {
                 pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p)));
               }));
}

Status Regex::find_all(std::string_view text, TextBudget& budget,
                       std::vector<ByteRange>& matches) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  MatchState state(code);
  if (state.data == nullptr || state.context == nullptr) {
    return out_of_memory("no memory to match a tokenizer pattern");
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data);
  const auto failed = [&](size_t position, const std::string& why) {
    return invalid_argument("splitting the text at byte " + std::to_string(position) +
                            " with the tokenizer pattern \"" + pattern_ + "\" failed: " + why);
  };
  for (size_t position = 0; position < text.size();) {
    if (!budget.spend_match()) return failed(position, "the pattern takes too long on this text");
    int found = pcre2_match(code, subject, text.size(), position, PCRE2_NO_UTF_CHECK, state.data,
                            state.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code, subject, text.size(), position, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          state.data, state.context);
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return failed(position, pcre2_message(found));
    matches.push_back({bounds[0], bounds[1]});
    position = bounds[1];
    if (bounds[1] == bounds[0])
      position += utf8_step(text, std::min(position, text.size() - 1)).length;
  }
  return {};
}

}  // namespace encore
