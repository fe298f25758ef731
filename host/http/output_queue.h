// Bytes on their way to one client.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace encore {

// Two batches: one is being sent while the other fills. What is added before the next send goes out
// as one batch, and within a chunked body as one chunk. A body is never copied to be framed: a
// batch is sent as head, body and tail, one after the other in one call.
//
// Answers do not overlap: the queue is empty before the next one starts. One thread's.
class OutputQueue {
 public:
  // A head, or any bytes that go as they are, before the body.
  void add_head(std::string_view bytes) { filling_.head += bytes; }
  // What append() adds from now on goes in chunks, until end().
  void start_chunks() { chunked_ = true; }
  void set_body(std::string body) { filling_.body = std::move(body); }
  void append(std::string_view data) { filling_.body += data; }
  void end() { ended_ = true; }

  bool empty() const;
  size_t pending_bytes() const;  // the client's, without what frames them

  // What is to be sent next, in order; empty parts are none. Valid until the queue changes.
  std::array<std::string_view, 3> next();
  // The first `bytes` of next() are sent.
  void consume(size_t bytes);

 private:
  struct Batch {
    std::string head;
    std::string body;
    std::string tail;
    size_t size() const { return head.size() + body.size() + tail.size(); }
  };

  void fill_sending();

  Batch filling_;
  Batch sending_;
  size_t sent_ = 0;  // of sending_
  bool chunked_ = false;
  bool ended_ = false;  // the last chunk is to be added
};

}  // namespace encore
