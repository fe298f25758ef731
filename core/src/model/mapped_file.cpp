#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "model/printable.h"

namespace encore {
namespace {

Status system_error(const std::string& path, const char* what) {
  const int error = errno;
  std::string message =
      concat_message(what, " ", printable(path), ": ", std::generic_category().message(error));
  if (error == ENOENT || error == ENOTDIR) return not_found(std::move(message));
  if (error == ENOMEM || error == EMFILE || error == ENFILE) {
    return out_of_memory(std::move(message));
  }
  return invalid_argument(std::move(message));
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK so that a FIFO in a model directory is refused below instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "cannot open");
  std::unique_ptr<MappedFile> file(new MappedFile(path, descriptor));
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return system_error(path, "cannot stat");
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(printable(path) + " is not a regular file; name a model file");
  }
  file->size_ = info.st_size;
  if (file->size_ == 0) return file;
  void* address =
      ::mmap(nullptr, static_cast<size_t>(file->size_), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return system_error(path, "cannot map");
  file->data_ = static_cast<std::byte*>(address);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status MappedFile::read(int64_t offset, std::span<std::byte> destination) const {
  const auto bytes = static_cast<int64_t>(destination.size());
  if (offset < 0 || offset > size_ || bytes > size_ - offset) {
    return invalid_argument(concat_message("file ", printable(path_), ": bytes ", offset, " to ",
                                           offset, " + ", bytes, " leave its ", size_, " bytes"));
  }
  while (!destination.empty()) {
    const ssize_t got = ::pread(descriptor_, destination.data(), destination.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, "cannot read");
    if (got == 0) {
      return data_loss(concat_message("file ", printable(path_), " has shrunk: it had ", size_,
                                      " bytes when it was opened and now ends at ", offset));
    }
    destination = destination.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

void MappedFile::drop_pages(int64_t offset, int64_t bytes) const {
  if (data_ == nullptr || offset < 0 || bytes <= 0 || offset > size_ || bytes > size_ - offset) {
    return;
  }
  const int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  const int64_t first = (offset + page_bytes - 1) / page_bytes * page_bytes;
  const int64_t end = (offset + bytes) / page_bytes * page_bytes;
  if (first < end) {
    ::madvise(data_ + first, static_cast<size_t>(end - first), MADV_DONTNEED);
  }
}

}  // namespace encore
