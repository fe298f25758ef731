// The real tokenizers that tests use, found by environment variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace encore {

// One of deepseek_v3, gemma3, llama2, llama3_1, qwen3 (in ENCORE_TEST_DATA/tokenizers) and smollm2
// (a GGUF file in ENCORE_TEST_MODELS). Null if it is not there, and `missing` says what is missing.
// A tokenizer is loaded once in a process. Fails the test if the file is there and does not load.
const Tokenizer* test_tokenizer(const std::string& name, std::string& missing);

// The text of ENCORE_TEST_DATA/tokenizers/`name`/tokenizer.json.
std::string test_tokenizer_json(const std::string& name);

// A file beside the tests' sources.
std::string read_golden(const std::string& name);

// Skips a test whose tokenizer is missing.
// NOLINTBEGIN(bugprone-macro-parentheses): `tokenizer` is the name of a variable.
#define ENCORE_LOAD_OR_SKIP(tokenizer, name)                              \
  std::string tokenizer##_missing;                                        \
  const Tokenizer* tokenizer = test_tokenizer(name, tokenizer##_missing); \
  if (tokenizer == nullptr) GTEST_SKIP() << tokenizer##_missing
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace encore
