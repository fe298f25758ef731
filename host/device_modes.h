// What a device says it can do, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace encore {

// "eager", "prefill full", "prefill breakable", "decode graph", "collectives": those whose bits are
// set, in this order.
std::vector<std::string> mode_names(uint64_t capabilities);

// "eager, prefill full, ...".
std::string capability_names(uint64_t capabilities);

}  // namespace encore
