#include "toy_device.h"

#include <new>

namespace acme {
namespace {

using encore::DType;
using encore::ModelSpec;
using encore::Result;
using encore::lowering::DeviceMemoryBlock;

constexpr std::align_val_t kAlignment{64};

// Host memory that the toy copies from and to.
class HostBlock final : public DeviceMemoryBlock {
 public:
  HostBlock(std::byte* data, int64_t bytes) : data_(data), size_(bytes) {}
  ~HostBlock() override { operator delete(data_, kAlignment); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return size_; }

 private:
  std::byte* data_;
  int64_t size_;
};

encore::kernels::KvLayout layout_of(const ModelSpec& spec, int32_t page_size, DType dtype) {
  return {static_cast<encore::kernels::WeightType>(dtype), static_cast<int32_t>(spec.num_kv_heads),
          static_cast<int32_t>(spec.head_dim), page_size};
}

}  // namespace

Result<std::unique_ptr<DeviceMemoryBlock>> ToyDevice::allocate_host(int64_t bytes,
                                                                    const std::string& name) {
  void* data = operator new(static_cast<size_t>(bytes), kAlignment, std::nothrow);
  if (data == nullptr) {
    return encore::out_of_memory("cannot get " + std::to_string(bytes) +
                                 " bytes of host memory for '" + name + "'");
  }
  return std::unique_ptr<DeviceMemoryBlock>(
      std::make_unique<HostBlock>(static_cast<std::byte*>(data), bytes));
}

int64_t ToyDevice::kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const {
  return layout_of(spec, page_size, dtype).page_bytes();
}

Result<std::shared_ptr<void>> ToyDevice::describe_kv(const ModelSpec& spec, std::byte* pages,
                                                     int32_t num_pages, int32_t page_size,
                                                     DType dtype) {
  const encore::kernels::KvLayout layout = layout_of(spec, page_size, dtype);
  if (!layout.valid()) {
    return encore::invalid_argument("page_size is " + std::to_string(page_size) +
                                    " and the KV cache's dtype " +
                                    std::string(encore::dtype_name(dtype)) +
                                    "; the toy takes 16, 32 or 64, and f32, f16 or bf16");
  }
  return std::shared_ptr<void>(
      std::make_shared<KvDescription>(KvDescription{layout, pages, num_pages}));
}

}  // namespace acme
