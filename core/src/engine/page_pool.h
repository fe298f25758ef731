// The host's account of KV-cache pages: which are free, and how often each is in use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/status.h"

namespace encore {

// Pages 0 .. num_pages-1 with a reference count each, so that requests can share a prefix. The page
// freed last is given out first. One thread at a time.
class PagePool {
 public:
  explicit PagePool(int32_t num_pages);

  int32_t num_pages() const { return static_cast<int32_t>(ref_counts_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_used() const { return num_pages() - num_free(); }
  // Most pages ever in use at once.
  int32_t high_water() const { return high_water_; }
  // 0 for a free page. REQUIRES: 0 <= page < num_pages().
  int32_t ref_count(int32_t page) const { return ref_counts_[page]; }

  // Appends `count` pages, each with one reference, to `pages`; all or none.
  // Errors: kOutOfMemory if fewer are free.
  Status allocate(int32_t count, std::vector<int32_t>& pages);

  // One more user of a page that is in use.
  // Errors: kInvalidArgument if there is no such page, kInternal if it is free.
  Status retain(int32_t page);

  // One user less; the last one frees the page.
  // Errors: as retain; a free page released again is a defect of the caller.
  Status release(int32_t page);

 private:
  Status check_used(int32_t page, const char* action) const;

  std::vector<int32_t> ref_counts_;
  std::vector<int32_t> free_;  // a stack
  int32_t high_water_ = 0;
};

}  // namespace encore
