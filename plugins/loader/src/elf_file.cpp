#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "stage_error.h"

namespace encore {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr const char* kMachineName = "x86-64";
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
constexpr const char* kMachineName = "aarch64";
#else
#error "name this machine's ELF number here"
#endif

constexpr uint64_t kMaxSegments = 256;
constexpr uint64_t kMaxDynamicBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
constexpr size_t kMaxNeeded = 512;

std::string number(uint64_t value) { return std::to_string(value); }

Status damaged(LoadCode* code, std::string message) {
  return stage_error(code, LoadCode::kElfDamaged, data_loss(std::move(message)));
}

Status truncated(LoadCode* code, std::string message) {
  return stage_error(code, LoadCode::kElfTruncated, data_loss(std::move(message)));
}

// A file read at given offsets, never beyond its end.
class ReadableFile {
 public:
  // O_NONBLOCK: a pipe in a library's place is an error and not a wait.
  explicit ReadableFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status = {};
    if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
      is_regular_ = true;
      size_ = static_cast<uint64_t>(status.st_size);
    }
  }
  ~ReadableFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool is_regular() const { return is_regular_; }
  uint64_t size() const { return size_; }
  bool holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }

  Status read(uint64_t offset, void* destination, uint64_t bytes, const char* what,
              LoadCode* code) const {
    if (!holds(offset, bytes)) {
      return truncated(code, std::string(what) + " takes " + number(bytes) + " bytes from " +
                                 number(offset) + ", but the file has " + number(size_) +
                                 ": it is truncated; copy it again");
    }
    uint64_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::pread(descriptor_, static_cast<char*>(destination) + done, bytes - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return truncated(code, std::string(what) + " cannot be read");
      done += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  int descriptor_;
  bool is_regular_ = false;
  uint64_t size_ = 0;
};

Result<Elf64_Ehdr> read_header(const ReadableFile& file, LoadCode* code) {
  if (file.size() == 0) {
    return stage_error(code, LoadCode::kElfEmpty, data_loss("it is empty; copy it again"));
  }
  std::array<char, SELFMAG> magic = {};
  const uint64_t magic_bytes = std::min<uint64_t>(file.size(), magic.size());
  ENCORE_RETURN_IF_ERROR(file.read(0, magic.data(), magic_bytes, "the ELF magic", code));
  if (std::memcmp(magic.data(), ELFMAG, magic_bytes) != 0) {
    return stage_error(
        code, LoadCode::kElfMagic,
        data_loss("it does not start with the ELF magic: it is not a shared library"));
  }
  Elf64_Ehdr header = {};
  if (file.size() < sizeof(header)) {
    return truncated(code, "it has " + number(file.size()) + " bytes, fewer than an ELF header's " +
                               number(sizeof(header)) + ": it is truncated; copy it again");
  }
  ENCORE_RETURN_IF_ERROR(file.read(0, &header, sizeof(header), "the ELF header", code));
  return header;
}

Status check_header(const Elf64_Ehdr& header, LoadCode* code) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return stage_error(code, LoadCode::kElfClass,
                       data_loss("it is not 64-bit little-endian, as this host is; get the plugin "
                                 "for this machine"));
  }
  if (header.e_machine != kMachine) {
    return stage_error(
        code, LoadCode::kElfMachine,
        data_loss("it is for ELF machine " + number(header.e_machine) + "; this host is " +
                  kMachineName + " (" + number(kMachine) + "); get the plugin for this machine"));
  }
  if (header.e_type != ET_DYN) {
    return stage_error(code, LoadCode::kElfType,
                       data_loss("its ELF type is " + number(header.e_type) +
                                 "; a shared library has " + number(ET_DYN)));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > kMaxSegments) {
    return damaged(code, "its program header has " + number(header.e_phnum) + " entries of " +
                             number(header.e_phentsize) + " bytes; 1 to " + number(kMaxSegments) +
                             " of " + number(sizeof(Elf64_Phdr)) + " were expected");
  }
  return {};
}

// What the dynamic linker would map, and the section table, which ends most files: both whole.
Status check_extents(const ReadableFile& file, const Elf64_Ehdr& header,
                     const std::vector<Elf64_Phdr>& segments, LoadCode* code) {
  bool has_load = false;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Elf64_Phdr& segment = segments[i];
    if (segment.p_type != PT_LOAD) continue;
    has_load = true;
    if (!file.holds(segment.p_offset, segment.p_filesz)) {
      return truncated(code, "segment " + number(i) + " takes " + number(segment.p_filesz) +
                                 " bytes from " + number(segment.p_offset) + ", but the file has " +
                                 number(file.size()) + ": it is truncated; copy it again");
    }
    if (segment.p_filesz > segment.p_memsz) {
      return damaged(code, "segment " + number(i) + " is larger in the file than in memory");
    }
    if (segment.p_memsz > UINT64_MAX - segment.p_vaddr) {
      return damaged(code, "segment " + number(i) + " ends beyond the address space");
    }
  }
  if (!has_load) return damaged(code, "it has no segment to load");
  const uint64_t section_bytes = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff != 0 && !file.holds(header.e_shoff, section_bytes)) {
    return truncated(code, "the section table takes " + number(section_bytes) + " bytes from " +
                               number(header.e_shoff) + ", but the file has " +
                               number(file.size()) + ": it is truncated; copy it again");
  }
  return {};
}

// Offset in the file of a virtual address whose `bytes` bytes lie in one segment.
Result<uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address,
                             uint64_t bytes, LoadCode* code) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside <= segment.p_filesz && bytes <= segment.p_filesz - inside) {
      return segment.p_offset + inside;
    }
  }
  return damaged(code, "its dynamic section points outside its segments");
}

struct DynamicSection {
  std::vector<Elf64_Dyn> entries;
  std::string strings;
};

Result<DynamicSection> read_dynamic(const ReadableFile& file,
                                    const std::vector<Elf64_Phdr>& segments, LoadCode* code) {
  const auto found = std::find_if(segments.begin(), segments.end(),
                                  [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
  if (found == segments.end()) {
    return damaged(code, "it has no dynamic section: it is not a shared library");
  }
  if (found->p_filesz > kMaxDynamicBytes) {
    return damaged(code, "its dynamic section has " + number(found->p_filesz) + " bytes; at most " +
                             number(kMaxDynamicBytes) + " are accepted");
  }
  DynamicSection section;
  section.entries.resize(found->p_filesz / sizeof(Elf64_Dyn));
  ENCORE_RETURN_IF_ERROR(file.read(found->p_offset, section.entries.data(),
                                   section.entries.size() * sizeof(Elf64_Dyn),
                                   "the dynamic section", code));
  uint64_t address = 0;
  uint64_t bytes = 0;
  for (const Elf64_Dyn& entry : section.entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
  }
  if (bytes > kMaxStringBytes) {
    return damaged(code, "its string table has " + number(bytes) + " bytes; at most " +
                             number(kMaxStringBytes) + " are accepted");
  }
  ENCORE_ASSIGN_OR_RETURN(const uint64_t offset, file_offset(segments, address, bytes, code));
  if (!file.holds(offset, bytes)) {
    return damaged(code, "its string table lies outside the file");
  }
  section.strings.resize(bytes);
  ENCORE_RETURN_IF_ERROR(
      file.read(offset, section.strings.data(), bytes, "the dynamic string table", code));
  return section;
}

Result<std::string> string_at(const DynamicSection& section, uint64_t offset, LoadCode* code) {
  const size_t end = section.strings.find('\0', offset);
  if (offset >= section.strings.size() || end == std::string::npos) {
    return damaged(code, "its dynamic section names a string outside its string table");
  }
  return section.strings.substr(offset, end - offset);
}

Result<ElfFile> interpret(const DynamicSection& section, LoadCode* code) {
  ElfFile elf;
  std::string old_path;
  for (const Elf64_Dyn& entry : section.entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED && entry.d_tag != DT_RUNPATH && entry.d_tag != DT_RPATH) continue;
    ENCORE_ASSIGN_OR_RETURN(std::string text, string_at(section, entry.d_un.d_val, code));
    if (entry.d_tag == DT_RUNPATH) {
      elf.run_path = std::move(text);
    } else if (entry.d_tag == DT_RPATH) {
      old_path = std::move(text);
    } else {
      elf.needed.push_back(std::move(text));
    }
    if (elf.needed.size() > kMaxNeeded) {
      return damaged(code, "it needs more than " + number(kMaxNeeded) + " libraries");
    }
  }
  if (elf.run_path.empty()) elf.run_path = std::move(old_path);
  return elf;
}

}  // namespace

Result<ElfFile> read_elf(const std::string& path, LoadCode* code) {
  const ReadableFile file(path);
  if (!file.is_open()) {
    return stage_error(code, LoadCode::kPathUnreadable,
                       not_found(std::string("it cannot be opened: ") + std::strerror(errno)));
  }
  if (!file.is_regular()) {
    return stage_error(code, LoadCode::kPathNotAFile, not_found("it is not a regular file"));
  }
  ENCORE_ASSIGN_OR_RETURN(const Elf64_Ehdr header, read_header(file, code));
  ENCORE_RETURN_IF_ERROR(check_header(header, code));
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  ENCORE_RETURN_IF_ERROR(file.read(header.e_phoff, segments.data(),
                                   segments.size() * sizeof(Elf64_Phdr), "the program header",
                                   code));
  ENCORE_RETURN_IF_ERROR(check_extents(file, header, segments, code));
  ENCORE_ASSIGN_OR_RETURN(const DynamicSection section, read_dynamic(file, segments, code));
  return interpret(section, code);
}

}  // namespace encore
