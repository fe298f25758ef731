// The stage "permissions": nobody but root and the user who runs this can put other code in the
// plugin's place.
#pragma once

#include <string>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// Walks from / to the file as the kernel does, through every symbolic link, and checks each folder
// on the way and then the file: owned by root or the effective user, not writable by group or
// others. One exception: a folder with the sticky bit, such as /tmp, may be writable if what is
// taken from it is owned by root or this user, since nobody else can then rename or replace that.
// Returns the path without links, of which all of this holds.
// Errors: kFailedPrecondition naming what is wrong and how to put it right, kNotFound if the path
// changes meanwhile; `*code` says which.
Result<std::string> check_permissions(const std::string& path, LoadCode* code);

}  // namespace encore
