// The KV cache of all ranks: each keeps its own heads of every page.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parallel_core.h"

namespace encore::lowering {

class ParallelKvCache final : public KvCache {
 public:
  static Result<std::unique_ptr<ParallelKvCache>> create(std::shared_ptr<ParallelCore> core,
                                                         const KvOptions& options);
  ~ParallelKvCache() override { core_->destroy(parts_); }

  // As many pages as the rank with the fewest has; bytes are those of all ranks.
  KvInfo info() const override { return info_; }
  Status copy_pages(std::span<const PageCopy> copies) override;
  // The ranks' parts one after the other.
  Status read_page(int32_t page, std::span<std::byte> destination) const override;

  KvCache& part(int32_t rank) { return *parts_[static_cast<size_t>(rank)]; }

 private:
  explicit ParallelKvCache(std::shared_ptr<ParallelCore> core)
      : core_(std::move(core)), parts_(static_cast<size_t>(core_->size())) {}

  std::shared_ptr<ParallelCore> core_;
  std::vector<std::unique_ptr<KvCache>> parts_;
  std::vector<int64_t> page_begin_;  // of each rank's bytes in a page
  KvInfo info_;
};

}  // namespace encore::lowering
