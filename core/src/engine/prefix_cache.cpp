#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <random>

namespace encore {
namespace {

// What the account of pages refuses is a defect of the engine.
void must(const Status& status) {
  assert(status.ok());
  static_cast<void>(status);
}

}  // namespace

PrefixCache::PrefixCache(PagePool& pool, int32_t page_size, bool enabled, uint64_t seed,
                         PageHash hash)
    : pool_(pool), page_size_(page_size), seed_(seed), hash_(hash) {
  if (!enabled) return;
  const auto pages = static_cast<size_t>(pool.num_pages());
  nodes_.resize(pages);
  tokens_.resize(pages * page_size);
  buckets_.assign(std::bit_ceil(2 * pages + 1), kNoPage);
}

uint64_t PrefixCache::random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32) | random();
}

// Two tokens at a time through the finisher of MurmurHash3, whose steps can all be undone: chains
// that differ in one word never collide, others as two random numbers do.
uint64_t PrefixCache::hash_page(uint64_t parent_hash, std::span<const int32_t> tokens) {
  uint64_t hash = parent_hash;
  for (size_t i = 0; i < tokens.size(); i += 2) {
    const uint64_t low = static_cast<uint32_t>(tokens[i]);
    const uint64_t high = i + 1 < tokens.size() ? static_cast<uint32_t>(tokens[i + 1]) : 0;
    hash ^= low | high << 32;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    hash ^= hash >> 33;
    hash += 0x9e3779b97f4a7c15ULL;
  }
  return hash;
}

std::span<int32_t> PrefixCache::tokens_of(int32_t page) {
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_size_, page_size_);
}

std::span<const int32_t> PrefixCache::tokens_of(int32_t page) const {
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_size_, page_size_);
}

void PrefixCache::find(std::span<const int32_t> tokens, int32_t max_pages,
                       std::vector<int32_t>& pages) const {
  if (!enabled()) return;
  const auto size = static_cast<size_t>(page_size_);
  int32_t parent = kNoPage;
  uint64_t hash = seed_;
  for (int32_t i = 0; i < max_pages && tokens.size() >= size; ++i) {
    const std::span<const int32_t> own = tokens.first(size);
    hash = hash_(hash, own);
    parent = find_child(parent, hash, own);
    if (parent == kNoPage) return;
    pages.push_back(parent);
    tokens = tokens.subspan(size);
  }
}

int32_t PrefixCache::find_child(int32_t parent, uint64_t hash,
                                std::span<const int32_t> tokens) const {
  int32_t page = buckets_[hash & (buckets_.size() - 1)];
  for (; page != kNoPage; page = nodes_[page].next_in_bucket) {
    const Node& node = nodes_[page];
    if (node.hash == hash && node.parent == parent && std::ranges::equal(tokens_of(page), tokens)) {
      break;
    }
  }
  return page;
}

int32_t PrefixCache::insert(int32_t page, int32_t parent, std::span<const int32_t> tokens,
                            RequestId owner) {
  assert(enabled() && !nodes_[page].cached && pool_.ref_count(page) > 0);
  assert(parent == kNoPage || (nodes_[parent].cached && pool_.ref_count(parent) > 0));
  const uint64_t hash = hash_(parent == kNoPage ? seed_ : nodes_[parent].hash, tokens);
  const int32_t existing = find_child(parent, hash, tokens);
  if (existing != kNoPage) return existing;
  std::ranges::copy(tokens, tokens_of(page).begin());
  Node& node = nodes_[page];
  node = {};
  node.hash = hash;
  node.owner = owner;
  node.parent = parent;
  node.cached = true;
  int32_t& bucket = bucket_of(hash);
  node.next_in_bucket = bucket;
  bucket = page;
  if (parent == kNoPage) return page;
  int32_t& first_child = nodes_[parent].first_child;
  node.next_sibling = first_child;
  if (first_child != kNoPage) nodes_[first_child].previous_sibling = page;
  first_child = page;
  return page;
}

void PrefixCache::forget(RequestId owner) {
  for (size_t page = 0; page < nodes_.size(); ++page) {
    const Node& node = nodes_[page];
    if (node.cached && node.owner == owner) forget_subtree(static_cast<int32_t>(page));
  }
}

void PrefixCache::forget_subtree(int32_t page) {
  int32_t leaf = page;
  for (;;) {
    while (nodes_[leaf].first_child != kNoPage) leaf = nodes_[leaf].first_child;
    const int32_t parent = nodes_[leaf].parent;
    const bool last = leaf == page;
    remove_leaf(leaf);
    if (last) return;
    leaf = parent;
  }
}

void PrefixCache::remove_leaf(int32_t page) {
  Node& node = nodes_[page];
  assert(node.cached && node.first_child == kNoPage);
  int32_t* link = &bucket_of(node.hash);
  while (*link != page) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  if (node.previous_sibling != kNoPage) {
    nodes_[node.previous_sibling].next_sibling = node.next_sibling;
  } else if (node.parent != kNoPage) {
    nodes_[node.parent].first_child = node.next_sibling;
  }
  if (node.next_sibling != kNoPage) {
    nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
  node.cached = false;
  if (!pool_.is_kept(page)) return;
  unlink_kept(page);
  must(pool_.discard(page));
}

Status PrefixCache::allocate(int32_t count, std::vector<int32_t>& pages) {
  if (count <= num_available()) {
    while (pool_.num_free() < count) evict_oldest();
  }
  return pool_.allocate(count, pages);
}

void PrefixCache::evict_oldest() {
  ++num_evictions_;
  remove_leaf(oldest_);
}

void PrefixCache::retain(int32_t page) {
  if (pool_.is_kept(page)) unlink_kept(page);
  must(pool_.retain(page));
}

void PrefixCache::release(int32_t page) {
  if (!contains(page)) {
    must(pool_.release(page));
    return;
  }
  must(pool_.keep(page));
  if (pool_.is_kept(page)) link_newest(page);
}

void PrefixCache::link_newest(int32_t page) {
  nodes_[page].older = newest_;
  nodes_[page].newer = kNoPage;
  (newest_ == kNoPage ? oldest_ : nodes_[newest_].newer) = page;
  newest_ = page;
}

void PrefixCache::unlink_kept(int32_t page) {
  const Node& node = nodes_[page];
  (node.older == kNoPage ? oldest_ : nodes_[node.older].newer) = node.newer;
  (node.newer == kNoPage ? newest_ : nodes_[node.newer].older) = node.older;
}

}  // namespace encore
