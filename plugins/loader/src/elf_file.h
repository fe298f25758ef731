// As much of an ELF shared library as the loader wants to know before the dynamic linker maps it.
#pragma once

#include <string>
#include <vector>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

struct ElfFile {
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string run_path;             // DT_RUNPATH, or DT_RPATH where there is none; unexpanded
};

// Reads a shared library without mapping it, so that a file cut short is an error and not a SIGBUS.
// Never waits: a pipe or a device in the file's place is an error.
// Errors: kNotFound if it cannot be opened or is no regular file; kDataLoss, with expected and
// found, if it is not a whole ELF64 shared library for this machine. `*code`, unless null, says
// which.
Result<ElfFile> read_elf(const std::string& path, LoadCode* code = nullptr);

}  // namespace encore
