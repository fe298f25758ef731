// Replies of a batch on one stream, in order and as soon as possible.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace encore {

// Text of the first unfinished reply is written at once; that of later ones waits its turn. With
// more than one reply, each is headed by "=== N". One thread.
class ReplyPrinter {
 public:
  explicit ReplyPrinter(size_t num_replies);

  void text(size_t index, std::string_view text);
  void finished(size_t index);

 private:
  void begin(size_t index);

  std::vector<std::string> held_;
  std::vector<bool> finished_;
  size_t current_ = 0;
};

}  // namespace encore
