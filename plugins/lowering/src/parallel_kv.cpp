#include "parallel_kv.h"

#include <algorithm>
#include <string>

namespace encore::lowering {

Result<std::unique_ptr<ParallelKvCache>> ParallelKvCache::create(std::shared_ptr<ParallelCore> core,
                                                                 const KvOptions& options) {
  std::unique_ptr<ParallelKvCache> kv(new ParallelKvCache(std::move(core)));
  ENCORE_RETURN_IF_ERROR(
      kv->core_->prepare({"allocating the KV cache"}, [&](int32_t rank) -> Status {
        ENCORE_ASSIGN_OR_RETURN(kv->parts_[static_cast<size_t>(rank)],
                                kv->core_->model(rank).create_kv(options));
        return {};
      }));
  for (const std::unique_ptr<KvCache>& part : kv->parts_) {
    const KvInfo info = part->info();
    const bool first = kv->page_begin_.empty();
    kv->page_begin_.push_back(kv->info_.page_bytes);
    const KvInfo sum = kv->info_;
    kv->info_ = info;
    if (!first) kv->info_.num_pages = std::min(sum.num_pages, info.num_pages);
    kv->info_.page_bytes += sum.page_bytes;
    kv->info_.total_bytes += sum.total_bytes;
  }
  return kv;
}

Status ParallelKvCache::copy_pages(std::span<const PageCopy> copies) {
  return core_->step({"copying KV pages"}, [&](int32_t rank) {
    return parts_[static_cast<size_t>(rank)]->copy_pages(copies);
  });
}

Status ParallelKvCache::read_page(int32_t page, std::span<std::byte> destination) const {
  if (static_cast<int64_t>(destination.size()) != info_.page_bytes) {
    return invalid_argument("destination has " + std::to_string(destination.size()) +
                            " bytes; a page has " + std::to_string(info_.page_bytes));
  }
  return core_->step({"reading a KV page"}, [&](int32_t rank) {
    const auto index = static_cast<size_t>(rank);
    const int64_t bytes = parts_[index]->info().page_bytes;
    return parts_[index]->read_page(
        page,
        destination.subspan(static_cast<size_t>(page_begin_[index]), static_cast<size_t>(bytes)));
  });
}

}  // namespace encore::lowering
