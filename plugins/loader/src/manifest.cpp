#include "encore/loader/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/yaml_tree.h"
#include "manifest_error.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

// The whole file, one byte more than allowed at most. 0, or the error's number.
int read_bounded(const std::string& path, std::string& text) {
  // Without O_NONBLOCK a FIFO would wait here for its writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno;
  struct stat status = {};
  int error = ::fstat(file, &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : ENOTSUP;
  text.resize(kMaxManifestBytes + 1);
  size_t used = 0;
  while (error == 0 && used < text.size()) {
    const ssize_t got = ::read(file, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    used += static_cast<size_t>(got);
  }
  ::close(file);
  text.resize(used);
  return error;
}

}  // namespace

Result<Manifest> read_manifest(const std::string& path, LoadFailure* failure) {
  std::string text;
  const int error = read_bounded(path, text);
  if (error == 0) return parse_manifest(text, path, failure);
  const char* const reason = error == ENOTSUP ? "it is not a regular file" : std::strerror(error);
  return manifest_error({LoadCode::kManifestUnreadable, path, reason}, failure);
}

Result<std::string> manifest_library(const Manifest& manifest, const ManifestVariant& variant,
                                     LoadFailure* failure) {
  std::error_code error;
  fs::path real_manifest = fs::canonical(manifest.path, error);
  if (error) real_manifest = manifest.path;
  const fs::path folder = real_manifest.parent_path();
  const fs::path library = folder / variant.library;
  const fs::path real = fs::canonical(library, error);
  if (error) return library.string();  // loading it will say what is wrong with it
  const auto [in_folder, in_real] =
      std::mismatch(folder.begin(), folder.end(), real.begin(), real.end());
  if (in_folder == folder.end() && in_real != real.end()) return library.string();
  return manifest_error({LoadCode::kManifestOutside, manifest.path,
                         "library " + quoted_for_message(variant.library) + " leads to " +
                             real.string() + ", outside the manifest's folder"},
                        failure);
}

}  // namespace encore
