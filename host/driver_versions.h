// Which drivers and run-time libraries this machine has, found without any vendor's headers and
// without making a context on a device.
#pragma once

#include <string>
#include <vector>

namespace encore {

struct Component {
  std::string name;     // "NVIDIA kernel module"
  std::string version;  // empty: not there
  std::string detail;   // where it was found, or why it counts as missing
};

// Kernel, C library and C++ library of this process, then the kernel modules and user libraries of
// NVIDIA and AMD. Opens the vendors' libraries and leaves them open. Any thread.
std::vector<Component> find_components();

// The first word of `text` that is digits with points between them, such as "570.86.15"; empty if
// there is none.
std::string version_in(const std::string& text);

}  // namespace encore
