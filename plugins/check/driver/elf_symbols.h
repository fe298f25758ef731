// What the rules on the file look at: symbols, versions, run paths and the memory a library asks
// for. The loader's ELF reader (elf_file.h) has checked the same file before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/status.h"

namespace encore::check {

enum class SymbolBinding : int32_t { kLocal, kGlobal, kWeak, kUnique };

struct DynamicSymbol {
  std::string name;
  SymbolBinding binding = SymbolBinding::kLocal;
  bool defined = false;
  bool visible = false;  // other libraries can bind to it
};

struct VersionNeed {
  std::string library;  // "libc.so.6"
  std::string version;  // "GLIBC_2.34"
};

struct ElfSymbols {
  std::vector<DynamicSymbol> symbols;
  std::vector<VersionNeed> versions;
  std::vector<std::string> run_paths;  // entries of DT_RUNPATH and DT_RPATH, unexpanded
  bool executable_stack = false;
  bool text_relocations = false;
  bool writable_code = false;  // a segment that is writable and executable
};

// Reads what it needs of the file, never more than fixed limits, and maps nothing.
// Errors: kDataLoss if what the file says does not fit into it.
Result<ElfSymbols> read_elf_symbols(const std::string& path);

}  // namespace encore::check
