// The host's account of KV-cache pages: which are free, which are kept, how often each is in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "encore/status.h"

namespace encore {

// Pages 0 .. num_pages-1 with a reference count each, so that requests can share a prefix. A page
// without users is free, or kept for its content; only free ones are given out, the one freed last
// first. One thread at a time. After construction nothing is allocated.
class PagePool {
 public:
  explicit PagePool(int32_t num_pages);

  int32_t num_pages() const { return static_cast<int32_t>(ref_counts_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_kept() const { return num_kept_; }
  int32_t num_used() const { return num_pages() - num_free() - num_kept(); }
  // Most pages ever in use at once.
  int32_t high_water() const { return high_water_; }
  // 0 for a page that is free or kept. REQUIRES: 0 <= page < num_pages().
  int32_t ref_count(int32_t page) const { return std::max(0, ref_counts_[page]); }
  bool is_kept(int32_t page) const { return ref_counts_[page] == kKept; }

  // Appends `count` pages, each with one reference, to `pages`; all or none.
  // Errors: kOutOfMemory if fewer are free.
  Status allocate(int32_t count, std::vector<int32_t>& pages);

  // One more user of a page that is in use or kept.
  // Errors: kInvalidArgument if there is no such page, kInternal if it is free.
  Status retain(int32_t page);

  // One user less; the last one frees the page.
  // Errors: kInvalidArgument if there is no such page, kInternal if nobody uses it: a free page
  // released again is a defect of the caller.
  Status release(int32_t page);

  // One user less; after the last one the page is kept. Errors: as release.
  Status keep(int32_t page);

  // Frees a kept page.
  // Errors: kInvalidArgument if there is no such page, kInternal if it is not kept.
  Status discard(int32_t page);

 private:
  static constexpr int32_t kKept = -1;  // instead of a count

  Status check_exists(int32_t page, const char* action) const;
  Status check_used(int32_t page, const char* action) const;

  std::vector<int32_t> ref_counts_;
  std::vector<int32_t> free_;  // a stack
  int32_t num_kept_ = 0;
  int32_t high_water_ = 0;
};

}  // namespace encore
