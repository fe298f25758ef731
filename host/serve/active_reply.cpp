#include "serve/active_reply.h"

#include <algorithm>
#include <utility>

namespace encore {
namespace {

// The earlier of two times of which either may be unknown (-1).
int64_t earlier(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

ActiveReply::ActiveReply(std::shared_ptr<HttpExchange> exchange, const ReplyHeader& header,
                         Shape shape, TokenBytes token_bytes)
    : exchange_(std::move(exchange)),
      shape_(shape),
      choices_left_(shape.num_prompts * shape.choices_per_prompt) {
  if (shape.stream) {
    stream_.emplace(header, choices_left_, std::move(token_bytes));
  } else {
    collector_.emplace(header, choices_left_, std::move(token_bytes));
  }
}

void ActiveReply::open(const std::vector<std::string>& echoes) {
  out_.clear();
  if (stream_) {
    // nginx would hold the stream back otherwise.
    exchange_->start_stream(200, "text/event-stream; charset=utf-8",
                            {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
    stream_->open(echoes, out_);
    exchange_->write(out_);
  } else {
    collector_->open(echoes);
  }
}

void ActiveReply::add(int32_t index, const RequestEvent& event) {
  count(index, event);
  if (complete_) return;
  if (event.finish == FinishReason::kError) {
    fail(event);
    return;
  }
  if (stream_) {
    out_.clear();
    stream_->add(index, event, out_);
    if (choices_left_ == 0) stream_->close(totals_.usage, out_);
    if (!out_.empty()) exchange_->write(out_);
  } else {
    collector_->add(index, event);
  }
  if (choices_left_ == 0) close();
}

void ActiveReply::count(int32_t index, const RequestEvent& event) {
  totals_.first_token_us = earlier(totals_.first_token_us, event.timings.first_token_us);
  totals_.scheduled_us = earlier(totals_.scheduled_us, event.timings.scheduled_us);
  if (!event.finished()) return;
  --choices_left_;
  totals_.finish = event.finish;
  totals_.usage.completion_tokens += event.output_tokens;
  // The choices of a prompt share it; the first one says what was cached before.
  if (index % shape_.choices_per_prompt == 0) {
    totals_.usage.prompt_tokens += event.prompt_tokens;
    totals_.usage.cached_tokens += event.cached_tokens;
  }
}

void ActiveReply::fail(const RequestEvent& event) {
  complete_ = true;
  const ApiError error = to_api_error(internal_error(event.message));
  if (!stream_) {
    exchange_->respond({.status = error.http_status, .body = to_json(error), .headers = {}});
    return;
  }
  out_.clear();
  stream_->fail(error, out_);
  stream_->close(totals_.usage, out_);
  exchange_->write(out_);
  exchange_->finish();
}

void ActiveReply::close() {
  complete_ = true;
  if (stream_) {
    exchange_->finish();
  } else {
    exchange_->respond({.body = collector_->body(totals_.usage), .headers = {}});
  }
}

}  // namespace encore
