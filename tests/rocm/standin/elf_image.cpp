#include "elf_image.h"

namespace encore::standin {
namespace {

// One, or none if this is no ELF file.
std::vector<Elf64_Ehdr> header_of(std::span<const char> image) {
  auto headers = read_array<Elf64_Ehdr>(image, 0, 1);
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  return headers;
}

void add_symbols(std::span<const char> image, const Elf64_Shdr& table, const Elf64_Shdr& names,
                 std::vector<ElfSymbol>& symbols) {
  const auto text = read_array<char>(image, names.sh_offset, names.sh_size);
  const auto entries =
      read_array<Elf64_Sym>(image, table.sh_offset, table.sh_size / sizeof(Elf64_Sym));
  for (const Elf64_Sym& entry : entries) {
    if (entry.st_shndx == SHN_UNDEF || entry.st_name >= text.size()) continue;
    const char* name = text.data() + entry.st_name;
    symbols.push_back({std::string(name, strnlen(name, text.size() - entry.st_name)),
                       entry.st_value, ELF64_ST_TYPE(entry.st_info) == STT_FUNC});
  }
}

}  // namespace

std::vector<ElfSymbol> elf_symbols(std::span<const char> image, uint32_t table) {
  std::vector<ElfSymbol> symbols;
  for (const Elf64_Ehdr& header : header_of(image)) {
    const auto sections = read_array<Elf64_Shdr>(image, header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != table || section.sh_link >= sections.size()) continue;
      add_symbols(image, section, sections[section.sh_link], symbols);
    }
  }
  return symbols;
}

std::span<const char> elf_bytes_at(std::span<const char> image, uint64_t address) {
  for (const Elf64_Ehdr& header : header_of(image)) {
    for (const auto& part : read_array<Elf64_Phdr>(image, header.e_phoff, header.e_phnum)) {
      if (part.p_type != PT_LOAD || address < part.p_vaddr) continue;
      const uint64_t within = address - part.p_vaddr;
      if (within >= part.p_filesz || part.p_offset + part.p_filesz > image.size()) continue;
      return image.subspan(part.p_offset + within, part.p_filesz - within);
    }
  }
  return {};
}

}  // namespace encore::standin
