#include "context_account.h"

#include <algorithm>

namespace encore::gpu {

Status ContextAccount::make_once(int32_t device, const Use& use,
                                 const std::function<Status()>& make) {
  const std::lock_guard lock(mutex_);
  if (made_.contains(device)) return {};
  const std::optional<int64_t> before = use();
  ENCORE_RETURN_IF_ERROR(make());
  made_.insert(device);
  const std::optional<int64_t> after = before ? use() : std::nullopt;
  if (after) bytes_ += std::max<int64_t>(0, *after - *before);
  return {};
}

}  // namespace encore::gpu
