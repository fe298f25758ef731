// What a load needs to know of the server before it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench_serve_client.h"
#include "encore/status.h"

namespace encore {

struct RemoteModel {
  std::string name;
  int32_t max_tokens = 0;  // of prompt and reply; 0: the server does not say
};

// The model called `name`, or the server's first if that is empty.
// Errors: kUnavailable if there is no server, or it refuses to say (a key is missing, it is still
// loading); kNotFound if it has no such model, naming those it has.
Result<RemoteModel> find_model(LoadClient& client, const std::string& name);

// The ids of `text`, without special tokens; nothing if the server has no /tokenize.
// Errors: kUnavailable if there is no answer.
Result<std::optional<std::vector<int32_t>>> tokenize(LoadClient& client, const std::string& model,
                                                     const std::string& text);

}  // namespace encore
