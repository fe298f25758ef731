#include "reply_printer.h"

#include <cstdio>

namespace encore {
namespace {

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

ReplyPrinter::ReplyPrinter(size_t num_replies) : held_(num_replies), finished_(num_replies) {
  begin(0);
}

void ReplyPrinter::begin(size_t index) {
  if (held_.size() < 2 || index >= held_.size()) return;
  const std::string number = std::to_string(index + 1);
  write("=== ");
  write(number);
  write("\n");
}

void ReplyPrinter::text(size_t index, std::string_view text) {
  if (index == current_) {
    write(text);
  } else {
    held_[index] += text;
  }
}

void ReplyPrinter::finished(size_t index) {
  finished_[index] = true;
  while (current_ < finished_.size() && finished_[current_]) {
    write("\n");
    ++current_;
    begin(current_);
    if (current_ < held_.size()) write(held_[current_]);
  }
}

}  // namespace encore
