#include "http/output_queue.h"

#include <charconv>
#include <utility>

namespace encore {
namespace {

// A buffer that grew beyond this is given back once it was sent: an idle connection holds little.
constexpr size_t kKeptCapacity = 2048;

void clear(std::string& text) {
  if (text.capacity() > kKeptCapacity) {
    std::string().swap(text);
  } else {
    text.clear();
  }
}

void add_chunk_size(std::string& text, size_t size) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16);
  text.append(digits.data(), end.ptr);
  text += "\r\n";
}

}  // namespace

bool OutputQueue::empty() const {
  return sent_ == sending_.size() && filling_.size() == 0 && !ended_;
}

size_t OutputQueue::pending_bytes() const { return sending_.size() - sent_ + filling_.size(); }

void OutputQueue::fill_sending() {
  std::swap(sending_, filling_);
  sent_ = 0;
  if (chunked_ && !sending_.body.empty()) {
    add_chunk_size(sending_.head, sending_.body.size());
    sending_.tail = "\r\n";
  }
  if (ended_) {
    if (chunked_) sending_.tail += "0\r\n\r\n";
    chunked_ = false;
    ended_ = false;
  }
}

std::array<std::string_view, 3> OutputQueue::next() {
  if (sent_ == sending_.size()) fill_sending();
  std::array<std::string_view, 3> parts = {sending_.head, sending_.body, sending_.tail};
  size_t skip = sent_;
  for (std::string_view& part : parts) {
    const size_t skipped = std::min(skip, part.size());
    part.remove_prefix(skipped);
    skip -= skipped;
  }
  return parts;
}

void OutputQueue::consume(size_t bytes) {
  sent_ += bytes;
  if (sent_ < sending_.size()) return;
  clear(sending_.head);
  clear(sending_.body);
  clear(sending_.tail);
  sent_ = 0;
}

}  // namespace encore
