// Reads a file's header front to back, never past its end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "encore/status.h"
#include "model/mapped_file.h"

namespace encore {

// Buffers pread, so a file that shrinks meanwhile is an error and not a signal. Little endian only.
// One thread at a time; borrows the file.
class FileCursor {
 public:
  explicit FileCursor(const MappedFile& file) : file_(file) {}

  int64_t position() const { return position_; }
  int64_t remaining() const { return file_.size() - position_; }

  // Errors of all reads: kDataLoss, naming the file, `what`, the bytes wanted and those left.
  template <typename T>
  Status read(T* value, const char* what) {
    static_assert(std::is_arithmetic_v<T> && std::endian::native == std::endian::little);
    if (static_cast<int64_t>(sizeof(T)) > available()) {
      ENCORE_RETURN_IF_ERROR(refill(sizeof(T), what));
    }
    std::memcpy(value, buffer_.data() + (position_ - buffer_start_), sizeof(T));
    position_ += static_cast<int64_t>(sizeof(T));
    return {};
  }

  // `bytes` bytes as they are.
  // REQUIRES: the caller has a limit on `bytes`.
  Status read_text(uint64_t bytes, std::string* text, const char* what);

  Status skip(uint64_t bytes, const char* what);

 private:
  // Bytes of the buffer that are not read yet; negative after a step beyond it.
  int64_t available() const {
    return buffer_start_ + static_cast<int64_t>(buffer_.size()) - position_;
  }
  Status check(uint64_t bytes, const char* what) const;
  Status refill(size_t bytes, const char* what);

  const MappedFile& file_;
  int64_t position_ = 0;
  int64_t buffer_start_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace encore
