// Numbers to and from the element types of weights, written plainly and without the kernels' code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "encore/dtype.h"

namespace encore::check {

// Nearest even; too large becomes infinity; NaN stays NaN.
uint16_t to_f16(float value);
uint16_t to_bf16(float value);
float from_f16(uint16_t bits);
float from_bf16(uint16_t bits);

// `values` as the type stores them: f32, f16, bf16, q8_0 or q4_0.
// REQUIRES: a row is a whole number of the type's blocks, and `values` a whole number of rows.
std::vector<std::byte> encode(DType dtype, std::span<const float> values);

// The inverse, exact.
std::vector<float> decode(DType dtype, std::span<const std::byte> bytes);

}  // namespace encore::check
