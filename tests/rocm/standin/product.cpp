#include "product.h"

#include <cstring>
#include <string>
#include <vector>

#include "bf16.h"
#include "memory.h"
#include "misuse.h"

namespace encore::standin {
namespace {

std::vector<float> widened(const uint16_t* values, int32_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) result[i] = from_bf16(values[i]);
  return result;
}

class ProductOperation final : public Operation {
 public:
  explicit ProductOperation(const ProductArgs& args) : args_(args) {}
  std::string what() const override {
    return "a product of m=" + std::to_string(args_.m) + " n=" + std::to_string(args_.n) +
           " k=" + std::to_string(args_.k);
  }
  hipGraphNodeType type() const override { return hipGraphNodeTypeKernel; }

  hipError_t run() override {
    const size_t element = args_.d_is_f32 ? sizeof(float) : sizeof(uint16_t);
    for (const std::string& fault :
         {fault_of(args_.a, extent(args_.m, args_.a_stride, args_.k) * sizeof(uint16_t)),
          fault_of(args_.b, extent(args_.n, args_.b_stride, args_.k) * sizeof(uint16_t)),
          fault_of(args_.d, extent(args_.n, args_.d_stride, args_.m) * element),
          args_.bias == nullptr ? "" : fault_of(args_.bias, args_.m * sizeof(uint16_t))}) {
      if (fault.empty()) continue;
      note_misuse("a product with " + fault);
      return hipErrorIllegalAddress;
    }
    const FaultMessage message("a product");
    for (int32_t column = 0; column < args_.n; ++column) compute(column);
    return hipSuccess;
  }

 private:
  static size_t extent(int32_t columns, int32_t stride, int32_t rows) {
    return columns == 0 ? 0 : size_t(columns - 1) * size_t(stride) + size_t(rows);
  }

  void compute(int32_t column) const {
    const std::vector<float> b = widened(args_.b + int64_t{column} * args_.b_stride, args_.k);
    for (int32_t row = 0; row < args_.m; ++row) {
      const uint16_t* a = args_.a + int64_t{row} * args_.a_stride;
      float sum = 0.0F;
      for (int32_t i = 0; i < args_.k; ++i) sum += from_bf16(a[i]) * b[static_cast<size_t>(i)];
      if (args_.bias != nullptr) sum += from_bf16(args_.bias[row]);
      store(int64_t{column} * args_.d_stride + row, sum);
    }
  }

  void store(int64_t at, float sum) const {
    if (args_.d_is_f32) {
      auto* d = static_cast<float*>(args_.d) + at;
      *d = args_.beta == 0.0F ? sum : sum + args_.beta * *d;
    } else {
      auto* d = static_cast<uint16_t*>(args_.d) + at;
      *d = to_bf16(args_.beta == 0.0F ? sum : sum + args_.beta * from_bf16(*d));
    }
  }

  ProductArgs args_;
};

}  // namespace

std::shared_ptr<Operation> make_product(const ProductArgs& args) {
  return std::make_shared<ProductOperation>(args);
}

}  // namespace encore::standin
