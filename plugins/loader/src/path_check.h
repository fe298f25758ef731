// The stage "path": what is at the path, without opening anything that could block.
#pragma once

#include <string>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// An absolute path to a regular file, through symbolic links or not, that this user can read.
// Errors: kInvalidArgument (relative), else kNotFound; `*code` says which.
Status check_path(const std::string& path, LoadCode* code);

// The file's SHA-256 is `expected`, 64 hexadecimal digits of either case.
// Errors: kInvalidArgument if `expected` is not that, else kDataLoss naming both; code kChecksum.
Status check_checksum(const std::string& path, const std::string& expected, LoadCode* code);

}  // namespace encore
