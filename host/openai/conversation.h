// The fields that make up a conversation: in chat requests and for /tokenize.
#pragma once

#include "openai/field_reader.h"
#include "openai/generation_request.h"

namespace encore {

// Messages, tools and what the template is told besides. Messages and tools are checked as far as
// the template relies on it, and passed on as they came.
void read_conversation(FieldReader& body, ChatInput& out);

}  // namespace encore
