// Models that come as one GGUF file or as several: "name-00001-of-00003.gguf" and so on.
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "model/gguf.h"
#include "model/printable.h"

namespace encore {
namespace {

constexpr std::string_view kPattern = "-#####-of-#####.gguf";
constexpr uint64_t kMaxParts = 99999;  // five digits in a file's name

struct PartName {
  std::string stem;     // what stands before "-00001-of-00003.gguf"
  uint64_t number = 0;  // from 1
  uint64_t count = 0;
};

// "-NNNNN-of-NNNNN.gguf" at the end of `path`, if it is there.
std::optional<PartName> parse_part_name(const std::string& path) {
  if (path.size() < kPattern.size()) return std::nullopt;
  const size_t start = path.size() - kPattern.size();
  std::array<uint64_t, 2> numbers = {0, 0};
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const char c = path[start + i];
    if (kPattern[i] == '#') {
      if (c < '0' || c > '9') return std::nullopt;
      uint64_t& number = numbers[i < 6 ? 0 : 1];
      number = number * 10 + static_cast<uint64_t>(c - '0');
    } else if (c != kPattern[i]) {
      return std::nullopt;
    }
  }
  return PartName{path.substr(0, start), numbers[0], numbers[1]};
}

std::string part_path(const PartName& name, uint64_t number) {
  std::array<char, 48> suffix = {};
  std::snprintf(suffix.data(), suffix.size(), "-%05llu-of-%05llu.gguf",
                static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(name.count));
  return name.stem + suffix.data();
}

// The value of an integer key, or `missing`.
uint64_t integer_or(const GgufMetadata& metadata, std::string_view key, uint64_t missing) {
  if (const auto* number = gguf_find<uint64_t>(metadata, key)) return *number;
  if (const auto* number = gguf_find<int64_t>(metadata, key)) {
    return *number < 0 ? missing : static_cast<uint64_t>(*number);
  }
  return missing;
}

Status add_part(const std::string& path, GgufMetadata* metadata, TensorStore* store) {
  ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::open(path));
  ENCORE_ASSIGN_OR_RETURN(GgufHeader header, read_gguf_header(*file));
  for (auto& [name, tensor] : header.tensors) {
    tensor.file = store->files.size();
    const auto [place, added] = store->tensors.emplace(name, std::move(tensor));
    if (!added) {
      return data_loss(concat_message("file ", printable(path), ": tensor ", printable(name),
                                      " is in file ",
                                      printable(store->files[place->second.file]->path()), " too"));
    }
  }
  *metadata = std::move(header.metadata);
  store->files.push_back(std::move(file));
  return {};
}

Status check_part(const std::string& path, const GgufMetadata& metadata, uint64_t number,
                  uint64_t count) {
  const uint64_t found_number = integer_or(metadata, "split.no", 0) + 1;
  const uint64_t found_count = integer_or(metadata, "split.count", 1);
  if (found_number == number && found_count == count) return {};
  return data_loss(concat_message("file ", printable(path), " says it is part ", found_number,
                                  " of ", found_count, "; expected part ", number, " of ", count));
}

}  // namespace

Result<GgufFiles> open_gguf(const std::string& path) {
  GgufFiles files;
  const std::optional<PartName> name = parse_part_name(path);
  const std::string first = name ? part_path(*name, 1) : path;
  ENCORE_RETURN_IF_ERROR(add_part(first, &files.metadata, &files.store));
  const uint64_t count = integer_or(files.metadata, "split.count", 1);
  if (count <= 1 && !name) return files;
  if (!name || count > kMaxParts || name->number < 1 || name->number > name->count) {
    return data_loss(concat_message("file ", printable(path), " is one of ", count,
                                    " parts; expected a name that ends in -00001-of-",
                                    "00003.gguf, with these numbers"));
  }
  ENCORE_RETURN_IF_ERROR(check_part(first, files.metadata, 1, name->count));
  for (uint64_t number = 2; number <= name->count; ++number) {
    const std::string part = part_path(*name, number);
    GgufMetadata metadata;
    ENCORE_RETURN_IF_ERROR(add_part(part, &metadata, &files.store));
    ENCORE_RETURN_IF_ERROR(check_part(part, metadata, number, name->count));
  }
  const uint64_t found = files.store.tensors.size();
  const uint64_t expected = integer_or(files.metadata, "split.tensors.count", found);
  if (found != expected) {
    return data_loss(concat_message("file ", printable(first), " and its parts hold ", found,
                                    " tensors; split.tensors.count says ", expected));
  }
  return files;
}

}  // namespace encore
