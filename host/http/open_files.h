// How many connections the process's limit of open files lets a server have.
#pragma once

#include <cstdint>

namespace encore {

struct ConnectionRoom {
  int32_t connections = 0;      // at once
  int32_t refused_at_once = 0;  // beyond them, being told so
};

// Of `wanted` connections, what fits into `open_files` beside all else that a process opens: model,
// devices, log. At least one.
ConnectionRoom connection_room(int32_t wanted, int64_t open_files);

// The same for this process, whose limit is raised first, as far as it may be, if it is too low. A
// warning says if that is not enough.
ConnectionRoom make_connection_room(int32_t wanted);

}  // namespace encore
