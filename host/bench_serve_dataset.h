// Conversations in ShareGPT's format, as prompts with the length of a real reply.
#pragma once

#include <string>
#include <vector>

#include "encore/status.h"

namespace encore {

struct Conversation {
  std::string prompt;  // what a person said first
  std::string reply;   // what was answered to it
};

// Reads [{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}]; what
// has no such first turn and reply is left out. Streams the file: it may be larger than memory has
// room for as a tree.
// Errors: kNotFound if it cannot be read; kDataLoss if it is no JSON or has no such conversation.
Result<std::vector<Conversation>> read_conversations(const std::string& path);

}  // namespace encore
