#include "model/file_cursor.h"

#include <algorithm>
#include <span>

#include "model/printable.h"

namespace encore {

namespace {
constexpr int64_t kBufferBytes = 256 * 1024;
}  // namespace

Status FileCursor::check(uint64_t bytes, const char* what) const {
  if (bytes <= static_cast<uint64_t>(remaining())) return {};
  return data_loss(concat_message("file ", printable(file_.path()), " is truncated or lies: ", what,
                                  " at byte ", position_, " needs ", bytes, " bytes, but only ",
                                  remaining(), " are left"));
}

Status FileCursor::refill(size_t bytes, const char* what) {
  ENCORE_RETURN_IF_ERROR(check(bytes, what));
  buffer_.resize(static_cast<size_t>(std::min(kBufferBytes, remaining())));
  buffer_start_ = position_;
  return file_.read(position_, buffer_);
}

Status FileCursor::read_text(uint64_t bytes, std::string* text, const char* what) {
  ENCORE_RETURN_IF_ERROR(check(bytes, what));
  const auto size = static_cast<size_t>(bytes);
  if (bytes > kBufferBytes) {
    text->resize(size);
    ENCORE_RETURN_IF_ERROR(file_.read(position_, std::as_writable_bytes(std::span(*text))));
  } else {
    if (static_cast<int64_t>(size) > available()) ENCORE_RETURN_IF_ERROR(refill(size, what));
    // An empty text may be asked for at the very end, where there is no buffer to point into.
    if (size > 0) {
      text->assign(reinterpret_cast<const char*>(buffer_.data()) + (position_ - buffer_start_),
                   size);
    } else {
      text->clear();
    }
  }
  position_ += static_cast<int64_t>(bytes);
  return {};
}

Status FileCursor::skip(uint64_t bytes, const char* what) {
  ENCORE_RETURN_IF_ERROR(check(bytes, what));
  position_ += static_cast<int64_t>(bytes);
  return {};
}

}  // namespace encore
