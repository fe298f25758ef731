#include "linker_cache.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

namespace encore {
namespace {

constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";

// The file's own layout (glibc, sysdeps/generic/dl-cache.h describes it).
struct CacheHeader {
  char magic[20];
  uint32_t num_entries;
  uint32_t string_bytes;
  uint32_t flags;
  uint32_t extension_offset;
  uint32_t unused[3];
};
static_assert(sizeof(CacheHeader) == 48);

struct CacheEntry {
  int32_t flags;
  uint32_t key;  // offsets in the file
  uint32_t value;
  uint32_t os_version;
  uint64_t hardware;
};
static_assert(sizeof(CacheEntry) == 24);

std::string_view string_at(std::string_view file, uint32_t offset) {
  if (offset >= file.size()) return {};
  const std::string_view rest = file.substr(offset);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

std::vector<std::string> linker_cache_paths(std::string_view library,
                                            const std::string& cache_path) {
  std::ifstream stream(cache_path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  std::vector<std::string> paths;
  CacheHeader header;
  if (file.size() < sizeof(header)) return paths;
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::string_view(header.magic, sizeof(header.magic)) != kCacheMagic) return paths;
  if (header.num_entries > (file.size() - sizeof(header)) / sizeof(CacheEntry)) return paths;
  for (uint32_t i = 0; i < header.num_entries; ++i) {
    CacheEntry entry;
    std::memcpy(&entry, file.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
    if (string_at(file, entry.key) == library) paths.emplace_back(string_at(file, entry.value));
  }
  return paths;
}

}  // namespace encore
