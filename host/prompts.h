// Where prompts come from: flags, a file, or stdin.
#pragma once

#include <string>
#include <vector>

#include "encore/status.h"

namespace encore {

inline constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// All of a file; "-" is stdin. A file's single last newline is not part of the prompt.
// Errors: kInvalidArgument if it cannot be read or is longer than kMaxPromptBytes.
Result<std::string> read_prompt_file(const std::string& path);

// The texts given by flags, then that of the file; stdin if there is neither.
// Errors: as read_prompt_file; kInvalidArgument for an empty prompt.
Result<std::vector<std::string>> collect_prompts(const std::vector<std::string>& texts,
                                                 const std::string& file);

}  // namespace encore
