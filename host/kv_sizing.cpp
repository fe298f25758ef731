#include "kv_sizing.h"

#include <algorithm>

namespace encore {

KvSize size_kv(const KvBudget& budget) {
  const MemoryPlan& plan = budget.plan;
  const auto total = static_cast<double>(budget.memory.total_bytes);
  const int64_t taken = budget.memory.total_bytes - budget.memory.free_bytes + plan.runner_bytes +
                        plan.executable_bytes + plan.kv_fixed_bytes;
  const int64_t left = static_cast<int64_t>(budget.fraction * total) - taken;
  KvSize size;
  size.pages = std::clamp<int64_t>(left / plan.kv_page_bytes, 0, budget.most_pages);
  size.needed_fraction =
      static_cast<double>(taken + budget.least_pages * plan.kv_page_bytes) / total;
  return size;
}

}  // namespace encore
