// The fields that chat and completion requests share.
#pragma once

#include <span>
#include <string_view>

#include "openai/field_reader.h"
#include "openai/generation_request.h"

namespace encore {

// Sampling, limits of length, stops, choices, streaming.
void read_generation_fields(FieldReader& body, const ApiLimits& limits, GenerationRequest& out);

// A field that OpenAI or vLLM knows and that would change the reply, but is not built. Ignoring it
// would answer another question than the one asked.
struct RefusedField {
  enum class When { kGiven, kTrue, kFalse };

  std::string_view name;
  When when = When::kGiven;  // empty arrays and objects ask for nothing
};

void refuse_fields(FieldReader& body, std::span<const RefusedField> fields);

}  // namespace encore
