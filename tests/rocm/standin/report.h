// What is left at the end.
#pragma once

#include <string>

namespace encore::standin {

// "2 device allocations (4096 bytes), 1 stream"; empty if nothing is held.
std::string held();

}  // namespace encore::standin
