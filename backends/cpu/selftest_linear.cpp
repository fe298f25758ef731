// Products with each weight format, against a sum in double over the weights as the file holds
// them.
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "host_memory.h"
#include "kernels/cpu/linear.h"
#include "selftest_parts.h"

namespace encore::cpu {
namespace {

using kernels::WeightType;

struct Format {
  WeightType type;
  const char* name;
  std::array<int, 2> scales;  // byte offsets of a block's f16 scales; -1 for none
  double error;               // of a sum, as a share of the sum of magnitudes
};

// Quantised activations have 15 bits; bf16 rounds them to 8.
constexpr std::array kFormats = {Format{WeightType::kF32, "f32", {-1, -1}, 1e-5},
                                 Format{WeightType::kF16, "f16", {0, -1}, 1e-5},
                                 Format{WeightType::kBF16, "bf16", {-1, -1}, 5e-3},
                                 Format{WeightType::kQ8_0, "q8_0", {0, -1}, 1e-4},
                                 Format{WeightType::kQ4_0, "q4_0", {0, -1}, 1e-4},
                                 Format{WeightType::kQ4_1, "q4_1", {0, 2}, 1e-4},
                                 Format{WeightType::kQ4_K, "q4_k", {0, 2}, 1e-4},
                                 Format{WeightType::kQ5_K, "q5_k", {0, 2}, 1e-4},
                                 Format{WeightType::kQ6_K, "q6_k", {208, -1}, 1e-4}};

constexpr int64_t kInputs = 256;  // a block of every format
constexpr int64_t kOutputs = 40;  // two whole panels and half of one
constexpr int32_t kMaxRows = 21;  // a tile of 16, and a rest

// A whole matrix as a file holds it, of random codes and numbers.
std::vector<std::byte> random_weight(const Format& format) {
  SmallRandom random;
  const auto block = static_cast<size_t>(kernels::block_bytes(format.type));
  std::vector<std::byte> file(static_cast<size_t>(kOutputs * kInputs) /
                              static_cast<size_t>(kernels::block_elements(format.type)) * block);
  for (std::byte& byte : file) byte = static_cast<std::byte>(random.bits());
  constexpr uint16_t kSixteenth = 0x2C00;  // as f16
  for (size_t i = 0; i < file.size(); i += block) {
    const float value = random.number();
    const uint16_t half = kernels::f32_to_bf16(value);
    const auto f16 = static_cast<uint16_t>(kSixteenth + (random.bits() & 0x83FFU));
    switch (format.type) {
      case WeightType::kF32:
        std::memcpy(&file[i], &value, sizeof(value));
        break;
      case WeightType::kBF16:
        std::memcpy(&file[i], &half, sizeof(half));
        break;
      default:
        for (const int offset : format.scales) {
          if (offset >= 0) std::memcpy(&file[i + static_cast<size_t>(offset)], &f16, sizeof(f16));
        }
    }
  }
  return file;
}

// Everything that a product of one format works on.
struct Product {
  const Format& format;
  std::vector<std::byte> file;
  std::vector<float> x;
  std::unique_ptr<MappedBlock> packed;
  std::unique_ptr<MappedBlock> workspace;
};

Result<Product> make_product(const Format& format) {
  Product product{format, random_weight(format), std::vector<float>(kMaxRows * kInputs), {}, {}};
  SmallRandom random;
  for (float& value : product.x) value = random.number();
  const std::array types = {format.type};
  ENCORE_ASSIGN_OR_RETURN(product.packed,
                          MappedBlock::create(static_cast<int64_t>(kernels::packed_bytes(
                                                  format.type, kOutputs, kInputs)),
                                              "self-test"));
  ENCORE_ASSIGN_OR_RETURN(product.workspace,
                          MappedBlock::create(static_cast<int64_t>(kernels::linear_workspace_bytes(
                                                  types, kMaxRows, kInputs)),
                                              "self-test"));
  if (kernels::is_quantised(format.type)) {
    kernels::pack_weight(format.type, product.file.data(), kOutputs, kInputs, 0, kOutputs,
                         product.packed->data());
  } else {
    std::memcpy(product.packed->data(), product.file.data(), product.file.size());
  }
  return product;
}

std::vector<float> run(ThreadTeam& team, kernels::IsaLevel level, const Product& product,
                       int32_t rows) {
  std::vector<float> y(static_cast<size_t>(rows) * kOutputs);
  kernels::LinearArgs args;
  args.x = product.x.data();
  args.x_stride = kInputs;
  args.num_rows = &rows;
  args.max_rows = rows;
  args.parts[0].weight = {product.format.type, product.packed->data(), kOutputs, kInputs};
  args.y = y.data();
  args.y_stride = kOutputs;
  args.workspace = product.workspace->data();
  args.level = level;
  team.run(kernels::linear, args);
  return y;
}

Status check(const Product& product, const std::vector<float>& y) {
  const std::string what = std::string("products with ") + product.format.name + " weights";
  const size_t row_bytes = product.file.size() / kOutputs;
  std::vector<float> weight(kInputs);
  for (int64_t column = 0; column < kOutputs; ++column) {
    kernels::dequantize_row(product.format.type,
                            product.file.data() + static_cast<size_t>(column) * row_bytes, kInputs,
                            weight.data());
    for (int64_t i = column; i < static_cast<int64_t>(y.size()); i += kOutputs) {
      const float* x = product.x.data() + i / kOutputs * kInputs;
      double sum = 0.0;
      double magnitude = 0.0;
      for (int64_t k = 0; k < kInputs; ++k) {
        const double term = static_cast<double>(weight[static_cast<size_t>(k)]) * x[k];
        sum += term;
        magnitude += std::abs(term);
      }
      ENCORE_RETURN_IF_ERROR(expect_near(what, i, static_cast<double>(y[static_cast<size_t>(i)]),
                                         sum, product.format.error * magnitude));
    }
  }
  return {};
}

}  // namespace

Status test_linear(ThreadTeam& team, kernels::IsaLevel level) {
  for (const Format& format : kFormats) {
    const std::array types = {format.type};
    team.reserve_scratch(kernels::linear_scratch_bytes(types, kInputs));
    ENCORE_ASSIGN_OR_RETURN(const Product product, make_product(format));
    for (const int32_t rows : {1, kMaxRows}) {
      ENCORE_RETURN_IF_ERROR(check(product, run(team, level, product, rows)));
    }
  }
  return {};
}

}  // namespace encore::cpu
