#include "host_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace encore::cpu {
namespace {

// Below this, a huge page would take more than it saves.
constexpr int64_t kHugePageWorthBytes = int64_t{8} << 20;

}  // namespace

Result<std::unique_ptr<MappedBlock>> MappedBlock::create(int64_t bytes, const std::string& name) {
  const int64_t size = std::max<int64_t>(bytes, 1);
  void* address = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return out_of_memory("cannot get " + std::to_string(size) + " bytes of memory for '" + name +
                         "'; make it smaller or free memory");
  }
  if (size >= kHugePageWorthBytes) madvise(address, static_cast<size_t>(size), MADV_HUGEPAGE);
  return std::unique_ptr<MappedBlock>(new MappedBlock(static_cast<std::byte*>(address), size));
}

MappedBlock::~MappedBlock() { munmap(data_, static_cast<size_t>(bytes_)); }

Result<std::byte*> WeightPool::allocate(int64_t bytes) {
  const int64_t rounded = (bytes + 63) / 64 * 64;
  if (pieces_.empty() || piece_used_ + rounded > pieces_.back()->bytes()) {
    ENCORE_ASSIGN_OR_RETURN(auto piece,
                            MappedBlock::create(std::max(rounded, kPieceBytes), "weights"));
    pieces_.push_back(std::move(piece));
    piece_used_ = 0;
  }
  std::byte* result = pieces_.back()->data() + piece_used_;
  piece_used_ += rounded;
  used_bytes_ += rounded;
  return result;
}

}  // namespace encore::cpu
