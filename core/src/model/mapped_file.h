// A read-only file in memory, and a way to read it that survives the file being cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "encore/status.h"

namespace encore {

// Holds a descriptor and a mapping of a regular file until destroyed. Immutable, so any number of
// threads may use it. A file that shrinks after it was opened makes read() fail with a message;
// touching data() past the new end raises SIGBUS, so headers are parsed through read().
class MappedFile {
 public:
  // Errors: kNotFound; kInvalidArgument unless `path` is a regular file; kOutOfMemory if the system
  // has no descriptors or address space left.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  // The whole file, [size()]; null if it is empty.
  const std::byte* data() const { return data_; }

  // Copies bytes [offset, offset + destination.size()) with pread.
  // Errors: kInvalidArgument if the range leaves the file; kDataLoss if the file has shrunk.
  Status read(int64_t offset, std::span<std::byte> destination) const;

  // Lets the system drop the pages that lie wholly inside [offset, offset + bytes).
  void drop_pages(int64_t offset, int64_t bytes) const;

 private:
  MappedFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace encore
