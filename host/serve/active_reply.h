// A reply from its first event to its last byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "http/http_server.h"
#include "openai/reply_writer.h"

namespace encore {

// What the choices of a request came to, together.
struct ReplyTotals {
  Usage usage;
  FinishReason finish = FinishReason::kNone;  // of the choice that ended last
  int64_t scheduled_us = -1;                  // the earliest, of those that have one
  int64_t first_token_us = -1;
};

// Turns the events of all choices of one request into its answer, streamed or whole. The server's
// thread only.
class ActiveReply {
 public:
  struct Shape {
    bool stream = false;
    int32_t num_prompts = 1;
    int32_t choices_per_prompt = 1;
  };

  ActiveReply(std::shared_ptr<HttpExchange> exchange, const ReplyHeader& header, Shape shape,
              TokenBytes token_bytes);

  // What comes before the first token; for a stream, the head of the response too.
  //   echoes  texts of the prompts, or empty
  void open(const std::vector<std::string>& echoes);

  // An event of choice `index`: those of the first prompt come first. The last choice's end, or an
  // error of any, completes the answer; later events change nothing but the totals.
  void add(int32_t index, const RequestEvent& event);

  bool is_complete() const { return complete_; }
  const ReplyTotals& totals() const { return totals_; }

 private:
  void count(int32_t index, const RequestEvent& event);
  void fail(const RequestEvent& event);
  void close();

  std::shared_ptr<HttpExchange> exchange_;
  Shape shape_;
  // One of the two.
  std::optional<ReplyStream> stream_;
  std::optional<ReplyCollector> collector_;
  std::string out_;  // of one event; kept for its memory
  ReplyTotals totals_;
  int32_t choices_left_;
  bool complete_ = false;
};

}  // namespace encore
