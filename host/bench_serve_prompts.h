// The prompts of a load, made or taken from a file.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench_serve_client.h"
#include "bench_serve_server.h"
#include "bench_serve_workload.h"
#include "encore/status.h"

namespace encore {

struct LoadPrompts {
  std::vector<LoadPrompt> prompts;
  std::string lengths;  // in words
};

// `count` prompts of random token ids, or of random words if the server does not tokenize or `text`
// is set.
// Errors: kInvalidArgument if the longest do not fit the model; those of tokenize().
Result<LoadPrompts> random_prompts(LoadClient& client, const RemoteModel& model,
                                   const LengthRange& input, const LengthRange& output, bool text,
                                   int64_t count, std::mt19937_64& random);

// `count` conversations of a file in random order, again from the start if there are fewer; replies
// as long as in the file. Those that the model has no room for are left out.
// Errors: those of read_conversations() and tokenize(); kInvalidArgument if none fits.
Result<LoadPrompts> dataset_prompts(LoadClient& client, const RemoteModel& model,
                                    const std::string& path, int64_t count,
                                    std::mt19937_64& random);

}  // namespace encore
