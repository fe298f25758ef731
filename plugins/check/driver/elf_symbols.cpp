#include "elf_symbols.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string_view>

namespace encore::check {
namespace {

constexpr uint64_t kMaxSections = 4096;
constexpr uint64_t kMaxSegments = 256;
constexpr uint64_t kMaxSectionBytes = uint64_t{64} << 20;

// The file's bytes at given offsets, never beyond its end.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, std::ios::binary | std::ios::ate) {
    if (file_) size_ = static_cast<uint64_t>(file_.tellg());
  }

  Result<std::string> bytes(uint64_t offset, uint64_t size, const char* what) {
    if (size > kMaxSectionBytes || offset > size_ || size > size_ - offset) {
      return data_loss(std::string(what) + " takes " + std::to_string(size) + " bytes from " +
                       std::to_string(offset) + ", the file has " + std::to_string(size_));
    }
    std::string data(size, '\0');
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!file_.read(data.data(), static_cast<std::streamsize>(size))) {
      return data_loss(std::string(what) + " cannot be read");
    }
    return data;
  }

  // `count` structs of type T.
  template <typename T>
  Result<std::vector<T>> array(uint64_t offset, uint64_t count, const char* what) {
    if (count > kMaxSectionBytes / sizeof(T)) {
      return data_loss(std::string(what) + " has " + std::to_string(count) + " entries");
    }
    ENCORE_ASSIGN_OR_RETURN(const std::string data, bytes(offset, count * sizeof(T), what));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), data.data(), data.size());
    return values;
  }

 private:
  std::ifstream file_;
  uint64_t size_ = 0;
};

// Empty if the offset lies outside.
std::string text_at(const std::string& strings, uint64_t offset) {
  if (offset >= strings.size()) return "";
  return strings.substr(offset, strings.find('\0', offset) - offset);
}

template <typename T>
bool struct_at(const std::string& data, uint64_t offset, T* value) {
  if (offset > data.size() || sizeof(T) > data.size() - offset) return false;
  std::memcpy(value, data.data() + offset, sizeof(T));
  return true;
}

SymbolBinding binding_of(uint8_t info) {
  switch (ELF64_ST_BIND(info)) {
    case STB_GLOBAL:
      return SymbolBinding::kGlobal;
    case STB_WEAK:
      return SymbolBinding::kWeak;
    case STB_GNU_UNIQUE:
      return SymbolBinding::kUnique;
    default:
      return SymbolBinding::kLocal;
  }
}

void add_symbols(const std::vector<Elf64_Sym>& table, const std::string& strings, ElfSymbols* elf) {
  for (const Elf64_Sym& entry : table) {
    const uint8_t visibility = ELF64_ST_VISIBILITY(entry.st_other);
    DynamicSymbol symbol;
    symbol.name = text_at(strings, entry.st_name);
    symbol.binding = binding_of(entry.st_info);
    symbol.defined = entry.st_shndx != SHN_UNDEF;
    symbol.visible = symbol.binding != SymbolBinding::kLocal &&
                     (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
    if (!symbol.name.empty()) elf->symbols.push_back(std::move(symbol));
  }
}

// The section is a chain of needed libraries, each with a chain of versions.
void add_versions(const std::string& section, const std::string& strings, ElfSymbols* elf) {
  uint64_t at = 0;
  Elf64_Verneed need;
  for (uint64_t seen = 0; seen < kMaxSections && struct_at(section, at, &need); ++seen) {
    uint64_t version_at = at + need.vn_aux;
    Elf64_Vernaux version;
    for (int i = 0; i < need.vn_cnt && struct_at(section, version_at, &version); ++i) {
      elf->versions.push_back({text_at(strings, need.vn_file), text_at(strings, version.vna_name)});
      if (version.vna_next == 0) break;
      version_at += version.vna_next;
    }
    if (need.vn_next == 0) break;
    at += need.vn_next;
  }
}

void add_run_path(const std::string& list, ElfSymbols* elf) {
  size_t begin = 0;
  for (;;) {
    const size_t colon = list.find(':', begin);
    elf->run_paths.push_back(list.substr(begin, colon - begin));
    if (colon == std::string::npos) return;
    begin = colon + 1;
  }
}

void add_dynamic(const std::vector<Elf64_Dyn>& entries, const std::string& strings,
                 ElfSymbols* elf) {
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) {
      add_run_path(text_at(strings, entry.d_un.d_val), elf);
    }
    const bool flagged = entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0;
    if (entry.d_tag == DT_TEXTREL || flagged) elf->text_relocations = true;
  }
}

Status read_sections(Reader& reader, const Elf64_Ehdr& header, ElfSymbols* elf) {
  if (header.e_shoff == 0 || header.e_shnum > kMaxSections ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    return data_loss("it has no section table that can be read; do not strip it away");
  }
  ENCORE_ASSIGN_OR_RETURN(const auto sections,
                          reader.array<Elf64_Shdr>(header.e_shoff, header.e_shnum, "a section"));
  for (const Elf64_Shdr& section : sections) {
    const bool wanted = section.sh_type == SHT_DYNSYM || section.sh_type == SHT_GNU_verneed ||
                        section.sh_type == SHT_DYNAMIC;
    if (!wanted) continue;
    if (section.sh_link >= sections.size()) return data_loss("a section links to no other");
    const Elf64_Shdr& link = sections[section.sh_link];
    ENCORE_ASSIGN_OR_RETURN(const std::string strings,
                            reader.bytes(link.sh_offset, link.sh_size, "a string table"));
    if (section.sh_type == SHT_GNU_verneed) {
      ENCORE_ASSIGN_OR_RETURN(const std::string data,
                              reader.bytes(section.sh_offset, section.sh_size, "versions"));
      add_versions(data, strings, elf);
    } else if (section.sh_type == SHT_DYNSYM) {
      ENCORE_ASSIGN_OR_RETURN(
          const auto table, reader.array<Elf64_Sym>(
                                section.sh_offset, section.sh_size / sizeof(Elf64_Sym), "symbols"));
      add_symbols(table, strings, elf);
    } else {
      ENCORE_ASSIGN_OR_RETURN(
          const auto table,
          reader.array<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn),
                                  "the dynamic section"));
      add_dynamic(table, strings, elf);
    }
  }
  return {};
}

}  // namespace

Result<ElfSymbols> read_elf_symbols(const std::string& path) {
  Reader reader(path);
  ENCORE_ASSIGN_OR_RETURN(const auto headers, reader.array<Elf64_Ehdr>(0, 1, "the ELF header"));
  const Elf64_Ehdr& header = headers[0];
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum > kMaxSegments) {
    return data_loss("it is not a 64-bit little-endian ELF file");
  }
  ENCORE_ASSIGN_OR_RETURN(const auto segments,
                          reader.array<Elf64_Phdr>(header.e_phoff, header.e_phnum, "a segment"));
  ElfSymbols elf;
  elf.executable_stack = true;  // what the linker assumes where no segment says otherwise
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_GNU_STACK) elf.executable_stack = (segment.p_flags & PF_X) != 0;
    constexpr uint32_t kBoth = PF_W | PF_X;
    if (segment.p_type == PT_LOAD && (segment.p_flags & kBoth) == kBoth) elf.writable_code = true;
  }
  ENCORE_RETURN_IF_ERROR(read_sections(reader, header, &elf));
  return elf;
}

}  // namespace encore::check
