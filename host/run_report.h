// What `encore run` reports at its end: a table for people, an object for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate.h"
#include "session.h"

namespace encore {

// "load  12.3 ms" and so on, a line each.
std::string timings_table(Session& session, const Generation& generation);

// One JSON object on one line; invalid UTF-8 cannot occur, non-finite numbers are null.
//   prompts   [n] ids of each prompt
//   seeds     [n]
std::string run_json(Session& session, const Generation& generation,
                     const std::vector<std::vector<int32_t>>& prompts,
                     const std::vector<uint64_t>& seeds);

}  // namespace encore
