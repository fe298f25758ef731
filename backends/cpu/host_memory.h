// Host memory for buffers and packed weights, straight from the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/status.h"

namespace encore::cpu {

// Anonymous pages: they take memory when first touched.
class MappedBlock final : public lowering::DeviceMemoryBlock {
 public:
  // Errors: kOutOfMemory naming `name` and the size.
  static Result<std::unique_ptr<MappedBlock>> create(int64_t bytes, const std::string& name);
  ~MappedBlock() override;
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  MappedBlock(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  int64_t bytes_;
};

// Packed weights side by side in large pieces, so that huge pages serve them. Freed all at once.
class WeightPool {
 public:
  // 64-byte aligned. Errors: kOutOfMemory.
  Result<std::byte*> allocate(int64_t bytes);
  int64_t used_bytes() const { return used_bytes_; }

 private:
  static constexpr int64_t kPieceBytes = int64_t{64} << 20;

  std::vector<std::unique_ptr<MappedBlock>> pieces_;
  int64_t piece_used_ = 0;
  int64_t used_bytes_ = 0;
};

}  // namespace encore::cpu
