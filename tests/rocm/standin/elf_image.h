// Symbols of an ELF file of 64 bits in memory.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace encore::standin {

struct ElfSymbol {
  std::string name;
  uint64_t address = 0;  // relative to where the file is loaded
  bool is_function = false;
};

// Defined symbols of the table of that type: SHT_SYMTAB, with local ones, or SHT_DYNSYM. Empty if
// the file is no ELF file or has no such table.
std::vector<ElfSymbol> elf_symbols(std::span<const char> image, uint32_t table);

// The bytes from `address` on that the file holds; empty if none.
std::span<const char> elf_bytes_at(std::span<const char> image, uint64_t address);

// `count` objects at `offset`; empty if the bytes end before.
template <typename T>
std::vector<T> read_array(std::span<const char> bytes, size_t offset, size_t count) {
  if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T)) return {};
  std::vector<T> array(count);
  if (count > 0) std::memcpy(array.data(), bytes.data() + offset, count * sizeof(T));
  return array;
}

}  // namespace encore::standin
