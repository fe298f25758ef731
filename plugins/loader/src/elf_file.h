// As much of an ELF shared library as the loader wants to know before the dynamic linker maps it.
#pragma once

#include <string>
#include <vector>

#include "encore/status.h"

namespace encore {

struct ElfFile {
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string run_path;             // DT_RUNPATH, or DT_RPATH where there is none; unexpanded
};

// Reads a shared library without mapping it, so that a file cut short is an error and not a SIGBUS.
// Errors: kNotFound if it cannot be opened; kDataLoss, with expected and found, if it is not a
// whole ELF64 shared library for this machine.
Result<ElfFile> read_elf(const std::string& path);

}  // namespace encore
