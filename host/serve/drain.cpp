#include "serve/drain.h"

#include <spdlog/spdlog.h>

#include <future>
#include <memory>

namespace encore {

bool drain_requests(ModelServer& server, const DrainLimits& limits) {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  spdlog::info("stopping: {} requests in progress have {} s to end; a second signal ends at once",
               server.requests_in_progress(), duration_cast<seconds>(limits.own_end).count());
  const auto promise = std::make_shared<std::promise<void>>();
  const std::future<void> drained = promise->get_future();
  server.drain([promise] { promise->set_value(); });
  if (drained.wait_for(limits.own_end) == std::future_status::ready) return true;
  spdlog::warn("{} requests have not ended and are cancelled", server.requests_in_progress());
  server.cancel_all();
  if (drained.wait_for(limits.cancelled_end) == std::future_status::ready) return true;
  spdlog::error("{} requests do not end", server.requests_in_progress());
  return false;
}

}  // namespace encore
