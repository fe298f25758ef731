// Finds the pages that already hold the keys and values of a request's first tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/page_pool.h"
#include "engine/request.h"

namespace encore {

// A forest of whole pages: a page's parent holds the tokens just before its own, so a page stands
// for all tokens from the start of a prompt to its end. Pages are looked up by a hash over the
// parent's hash and the page's tokens, and a hit counts only if parent and tokens are equal too:
// hashes that collide cost time, never wrong pages.
//
// Who uses a page uses its ancestors as well. Pages that nobody uses stay until allocate() needs
// them: the one given back longest ago first, and so, as users give back the end of their chain
// first, a page always before its parent.
//
// One thread at a time. Borrows the pool, whose pages must come and go through this class alone.
// After construction nothing is allocated.
class PrefixCache {
 public:
  using PageHash = uint64_t (*)(uint64_t parent_hash, std::span<const int32_t> tokens);

  static constexpr int32_t kNoPage = -1;  // the parent of a prompt's first page

  // Without `enabled` it remembers nothing, and pages are free as soon as nobody uses them. `seed`
  // is where hashes start from: random, so that nobody can prepare prompts that collide.
  PrefixCache(PagePool& pool, int32_t page_size, bool enabled, uint64_t seed = random_seed(),
              PageHash hash = &hash_page);

  bool enabled() const { return !nodes_.empty(); }
  // Pages that allocate() can give.
  int32_t num_available() const { return pool_.num_free() + pool_.num_kept(); }
  int64_t num_evictions() const { return num_evictions_; }

  // Appends to `pages` the cached pages that `tokens` begin with, at most `max_pages`. They are not
  // retained yet.
  void find(std::span<const int32_t> tokens, int32_t max_pages, std::vector<int32_t>& pages) const;

  // Makes `page`, which holds `tokens` after those of `parent`, one that find() finds. Returns it,
  // or another page that does the same already; then nothing changes.
  // REQUIRES: enabled(); page_size tokens; `page` is in use and not cached; `parent` is cached and
  // used by the same request, or kNoPage.
  int32_t insert(int32_t page, int32_t parent, std::span<const int32_t> tokens, RequestId owner);

  bool contains(int32_t page) const { return enabled() && nodes_[page].cached; }

  // Forgets the pages that `owner` has inserted, and everything that follows them. Who uses one
  // goes on using it. Looks at every page: for the rare end by an error.
  void forget(RequestId owner);

  // Appends `count` pages with one user each; all or none. Forgets pages that are only kept where
  // too few are free.
  // Errors: kOutOfMemory if num_available() is less.
  Status allocate(int32_t count, std::vector<int32_t>& pages);
  // One more user. REQUIRES: the page is used or cached.
  void retain(int32_t page);
  // One user less; then the page is kept if it is cached. A request gives back its last page first.
  void release(int32_t page);

  static uint64_t random_seed();
  static uint64_t hash_page(uint64_t parent_hash, std::span<const int32_t> tokens);

 private:
  // What is known of a page. Links are pages, kNoPage at the ends.
  struct Node {
    uint64_t hash = 0;
    RequestId owner = 0;
    int32_t parent = kNoPage;
    int32_t first_child = kNoPage;
    int32_t previous_sibling = kNoPage;
    int32_t next_sibling = kNoPage;
    int32_t next_in_bucket = kNoPage;
    int32_t older = kNoPage;  // kept pages, by when they were given back
    int32_t newer = kNoPage;
    bool cached = false;
  };

  std::span<int32_t> tokens_of(int32_t page);
  std::span<const int32_t> tokens_of(int32_t page) const;
  int32_t& bucket_of(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  int32_t find_child(int32_t parent, uint64_t hash, std::span<const int32_t> tokens) const;
  void evict_oldest();
  void forget_subtree(int32_t page);
  void remove_leaf(int32_t page);
  void link_newest(int32_t page);
  void unlink_kept(int32_t page);

  PagePool& pool_;
  int32_t page_size_;
  uint64_t seed_;
  PageHash hash_;
  std::vector<Node> nodes_;       // by page; empty if not enabled
  std::vector<int32_t> tokens_;   // [num_pages, page_size]
  std::vector<int32_t> buckets_;  // first page of each; a power of two of them
  int32_t oldest_ = kNoPage;
  int32_t newest_ = kNoPage;
  int64_t num_evictions_ = 0;
};

}  // namespace encore
