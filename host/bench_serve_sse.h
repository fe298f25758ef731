// Server-sent events, as they arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "encore/status.h"

namespace encore {

// Cuts a stream into the data of its events. The stream may be split anywhere, within a line end
// too. Fields other than `data` are ignored. One thread.
// Source: WHATWG HTML, section 9.2.6 (interpreting an event stream).
class SseParser {
 public:
  // Calls `event` with the data of each event that `bytes` completes; it is valid during the call.
  // An event that the stream's end cuts off is none.
  // Errors: kDataLoss for an event longer than 16 MiB.
  Status feed(std::string_view bytes, const std::function<void(std::string_view data)>& event);

 private:
  void end_line(const std::function<void(std::string_view data)>& event);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a line feed that comes next belongs to the line before
  bool first_line_ = true;
};

}  // namespace encore
