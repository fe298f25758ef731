// One streamed reply, as the client saw it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench_serve_sse.h"

namespace encore {

// How a request went. Times are seconds from the moment it was sent.
struct LoadRecord {
  bool ok = false;
  int32_t http_status = 0;  // 0: there was no answer
  std::string error;        // why it is not ok
  double first_token_s = -1.0;
  double last_token_s = -1.0;
  double end_s = -1.0;         // of the answer
  std::vector<double> gaps_s;  // between records that brought text
  int64_t prompt_tokens = 0;   // as the server counted; 0 if it did not
  int64_t output_tokens = 0;   // likewise, else records that brought text
  bool usage_reported = false;
};

// Reads the answer to a streaming request of /v1/completions or /v1/chat/completions.
class StreamedReply {
 public:
  void head(int32_t http_status) { record_.http_status = http_status; }

  // Bytes of the body that arrived at `now_s`.
  void feed(std::string_view bytes, double now_s);

  // The answer has ended, for `broken` if that is not empty.
  LoadRecord finish(double now_s, const std::string& broken);

 private:
  void read_event(std::string_view data, double now_s);
  void count_text(double now_s);

  LoadRecord record_;
  SseParser events_;
  std::string body_;  // of an answer that is no stream
  int64_t text_records_ = 0;
  bool done_ = false;  // [DONE] has come
};

}  // namespace encore
