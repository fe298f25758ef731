// From token ids to text, as much as the engine needs to know of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace encore {

// Turns one request's reply into text, id by id. The host adapts its streaming detokenizer to it.
// Used by the thread that steps the engine; destroyed with the request.
class TokenText {
 public:
  virtual ~TokenText() = default;
  // The text that is certain after this id: whole characters only, often empty.
  virtual std::string push(int32_t id) = 0;
  // What is still held back, such as a character that was cut. Called once, last.
  virtual std::string finish() = 0;
};

// Makes a fresh one for each request. May be called from any thread that calls Engine::add.
using TokenTextFactory = std::function<std::unique_ptr<TokenText>()>;

}  // namespace encore
