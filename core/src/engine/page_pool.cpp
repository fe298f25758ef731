#include "engine/page_pool.h"

#include <numeric>
#include <string>

namespace encore {
namespace {

Status misused(const char* action, int32_t page, const char* why) {
  return internal_error(std::string("cannot ") + action + " KV page " + std::to_string(page) +
                        ": " + why);
}

}  // namespace

PagePool::PagePool(int32_t num_pages) : ref_counts_(std::max(num_pages, 0), 0) {
  free_.resize(ref_counts_.size());
  std::iota(free_.rbegin(), free_.rend(), 0);  // page 0 on top
}

Status PagePool::allocate(int32_t count, std::vector<int32_t>& pages) {
  if (count > num_free()) {
    return out_of_memory(std::to_string(count) + " KV pages are needed and " +
                         std::to_string(num_free()) + " of " + std::to_string(num_pages()) +
                         " are free");
  }
  for (int32_t i = 0; i < count; ++i) {
    const int32_t page = free_.back();
    free_.pop_back();
    ref_counts_[page] = 1;
    pages.push_back(page);
  }
  high_water_ = std::max(high_water_, num_used());
  return {};
}

Status PagePool::retain(int32_t page) {
  ENCORE_RETURN_IF_ERROR(check_exists(page, "retain"));
  if (is_kept(page)) {
    --num_kept_;
    ref_counts_[page] = 1;
    high_water_ = std::max(high_water_, num_used());
    return {};
  }
  ENCORE_RETURN_IF_ERROR(check_used(page, "retain"));
  ++ref_counts_[page];
  return {};
}

Status PagePool::release(int32_t page) {
  ENCORE_RETURN_IF_ERROR(check_used(page, "release"));
  if (--ref_counts_[page] == 0) free_.push_back(page);  // within the capacity of the constructor
  return {};
}

Status PagePool::keep(int32_t page) {
  ENCORE_RETURN_IF_ERROR(check_used(page, "keep"));
  if (--ref_counts_[page] > 0) return {};
  ref_counts_[page] = kKept;
  ++num_kept_;
  return {};
}

Status PagePool::discard(int32_t page) {
  ENCORE_RETURN_IF_ERROR(check_exists(page, "discard"));
  if (!is_kept(page)) return misused("discard", page, "it is not kept");
  ref_counts_[page] = 0;
  --num_kept_;
  free_.push_back(page);
  return {};
}

Status PagePool::check_exists(int32_t page, const char* action) const {
  if (page >= 0 && page < num_pages()) return {};
  return invalid_argument(std::string("cannot ") + action + " KV page " + std::to_string(page) +
                          "; pages run from 0 to " + std::to_string(num_pages() - 1));
}

Status PagePool::check_used(int32_t page, const char* action) const {
  ENCORE_RETURN_IF_ERROR(check_exists(page, action));
  if (ref_counts_[page] == 0) return misused(action, page, "it is free already");
  if (is_kept(page)) return misused(action, page, "nobody uses it");
  return {};
}

}  // namespace encore
