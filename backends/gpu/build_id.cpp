#include "build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "hex.h"

namespace encore::gpu {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t aligned(size_t bytes) {
  return (bytes + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment;
}

// Of a segment of notes, which the loader has mapped.
std::string build_id_in(std::span<const std::byte> notes) {
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= notes.size()) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t content = name + aligned(note.n_namesz);
    const size_t end = content + aligned(note.n_descsz);
    if (end > notes.size()) break;
    const std::string_view owner(reinterpret_cast<const char*>(notes.data() + name), note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && owner == std::string_view("GNU\0", 4)) {
      return to_hex(notes.subspan(content, note.n_descsz));
    }
    at = end;
  }
  return {};
}

struct Search {
  uintptr_t address = 0;  // within the object that is looked for
  std::string found;
};

int look_at(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
  const auto begin = [&](const auto& segment) { return object->dlpi_addr + segment.p_vaddr; };
  const bool own = std::any_of(segments.begin(), segments.end(), [&](const auto& segment) {
    return segment.p_type == PT_LOAD && search->address - begin(segment) < segment.p_memsz;
  });
  if (!own) return 0;
  for (const auto& segment : segments) {
    if (segment.p_type != PT_NOTE || !search->found.empty()) continue;
    search->found =
        build_id_in({reinterpret_cast<const std::byte*>(begin(segment)), segment.p_memsz});
  }
  return 1;
}

}  // namespace

std::string own_build_id() {
  Search search{reinterpret_cast<uintptr_t>(&own_build_id), {}};
  dl_iterate_phdr(look_at, &search);
  return search.found;
}

}  // namespace encore::gpu
