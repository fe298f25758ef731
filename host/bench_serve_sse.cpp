#include "bench_serve_sse.h"

namespace encore {
namespace {

constexpr size_t kMaxEventBytes = size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Status SseParser::feed(std::string_view bytes,
                       const std::function<void(std::string_view data)>& event) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > kMaxEventBytes) {
      return data_loss("the server sent an event of more than 16 MiB");
    }
    if (end == std::string_view::npos) return {};
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(event);
  }
  return {};
}

void SseParser::end_line(const std::function<void(std::string_view data)>& event) {
  std::string_view line = line_;
  if (first_line_ && line.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    line.remove_prefix(kByteOrderMark.size());
  }
  first_line_ = false;
  if (line.empty()) {
    if (has_data_) event(data_);
    data_.clear();
    has_data_ = false;
  } else {
    const size_t colon = line.find(':');
    std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (line.substr(0, colon) == "data") {
      if (has_data_) data_ += '\n';
      data_ += value;
      has_data_ = true;
    }
  }
  line_.clear();
}

}  // namespace encore
