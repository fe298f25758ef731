#include "http/open_files.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>

namespace encore {
namespace {

// For all that is no connection being served. Where there are few files, half of them.
constexpr int64_t kReservedFiles = 256;

// Beyond so many at once, connections over the limit are closed without a word.
constexpr int64_t kMaxRefusedAtOnce = 64;

}  // namespace

ConnectionRoom connection_room(int32_t wanted, int64_t open_files) {
  const int64_t reserved = std::min(kReservedFiles, open_files / 2);
  const int64_t connections = std::clamp<int64_t>(open_files - reserved, 1, wanted);
  return {.connections = static_cast<int32_t>(connections),
          .refused_at_once = static_cast<int32_t>(std::min(kMaxRefusedAtOnce, reserved / 4))};
}

ConnectionRoom make_connection_room(int32_t wanted) {
  const int64_t needed = wanted + kReservedFiles;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return connection_room(wanted, needed);
  if (static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)) < needed) {
    const rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const auto open_files = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  const ConnectionRoom room = connection_room(wanted, open_files);
  if (room.connections < wanted) {
    spdlog::warn(
        "server.max_connections is {}, but this process may open {} files only: {} connections are "
        "served at once; raise the limit to {} (ulimit -n, LimitNOFILE= of systemd) or lower "
        "server.max_connections",
        wanted, open_files, room.connections, needed);
  }
  return room;
}

}  // namespace encore
