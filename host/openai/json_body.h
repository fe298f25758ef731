// A body as a tree, read within limits.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "openai/api_error.h"

namespace encore {

// Keeps keys in their order, which chat templates show to the model, and every one of those that
// stand twice.
using BodyJson = nlohmann::ordered_json;

inline constexpr int32_t kMaxBodyDepth = 64;
// Everything but keys counts. Two bytes of a body can be a value, and a value takes up to a hundred
// bytes of memory.
inline constexpr int32_t kMaxBodyValues = 1 << 20;

// Reads a JSON object of at most kMaxBodyDepth levels and kMaxBodyValues values, all text of it
// valid UTF-8. Never throws; takes as much stack for any body.
// Returns the error to answer with, which says what is wrong and where, or nothing.
std::optional<ApiError> parse_json_body(std::string_view body, BodyJson& out);

}  // namespace encore
