// The functions of the library that this is linked into, by mangled name.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace encore::standin {

// Those in anonymous namespaces too, so a name may have several addresses. Read from the symbol
// table of the library's file, which therefore must not be stripped. Empty if it cannot be read.
const std::unordered_map<std::string, std::vector<void*>>& own_functions();

}  // namespace encore::standin
