// What a load sends: prompts, lengths, bodies of requests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "encore/status.h"

namespace encore {

// Drawn evenly from mean - spread to mean + spread.
struct LengthRange {
  int32_t mean = 0;
  int32_t spread = 0;

  int32_t shortest() const { return mean - spread; }
  int32_t longest() const { return mean + spread; }
  std::string text() const;  // "128", "96 to 160"
};

// Reads "128" or "128:32".
// Errors: kInvalidArgument unless every length is from 1 to 2^20.
Result<LengthRange> parse_length(const std::string& text);

// Text, or token ids of the server's own vocabulary.
using LoadPromptText = std::variant<std::string, std::vector<int32_t>>;

struct LoadPrompt {
  LoadPromptText text;
  int32_t max_tokens = 0;
};

// Drawing is the same on every machine: only the generator's own numbers are used.
int32_t draw_length(std::mt19937_64& random, const LengthRange& range);

// So many words of a list of common English ones, each about a token.
std::string random_words(std::mt19937_64& random, int32_t count);
std::vector<int32_t> random_ids(std::mt19937_64& random, const std::vector<int32_t>& pool,
                                int32_t count);
// All the words, to learn ids from.
std::string all_words();

struct LoadBodyOptions {
  std::string model;
  bool chat = false;  // REQUIRES: prompts are text
  bool ignore_eos = false;
  double temperature = 0.0;
};

// The JSON of a streaming request.
std::string load_body(const LoadPrompt& prompt, const LoadBodyOptions& options);

// When each of `count` requests arrives, in seconds from the first. rate: mean arrivals a second of
// a Poisson process; infinite: all at once.
std::vector<double> arrival_times(std::mt19937_64& random, int64_t count, double rate);

}  // namespace encore
