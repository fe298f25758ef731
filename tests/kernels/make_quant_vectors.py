#!/usr/bin/env python3
"""Writes quant_vectors.h: random blocks of each quantised format and their values.

The values come from the reference implementation in the Python package `gguf`.
Run: python3 make_quant_vectors.py > quant_vectors.h
"""
import numpy as np
from gguf import GGMLQuantizationType, quants

# Format, block bytes, offsets of its f16 scales, blocks.
FORMATS = [
    ("Q8_0", 34, [0], 2),
    ("Q4_0", 18, [0], 2),
    ("Q4_1", 20, [0, 2], 2),
    ("Q4_K", 144, [0, 2], 1),
    ("Q5_K", 176, [0, 2], 1),
    ("Q6_K", 210, [208], 1),
]


def rows(items, per_line):
    return "\n".join(
        "     " + ", ".join(items[i : i + per_line]) + "," for i in range(0, len(items), per_line)
    )


def main():
    random = np.random.default_rng(2)
    print("// Made by make_quant_vectors.py: do not edit.")
    print("// Blocks of each format and, as IEEE bits, the f32 values that they stand for.")
    print("#pragma once\n\n#include <cstdint>\n#include <vector>\n")
    print('#include "kernels/cpu/quant.h"\n')
    print("namespace encore::kernels {\n")
    print("struct QuantVector {")
    print("  WeightType type;")
    print("  std::vector<uint8_t> blocks;")
    print("  std::vector<uint32_t> value_bits;")
    print("};\n")
    print("// clang-format off")
    print("inline const std::vector<QuantVector> kQuantVectors = {")
    for name, block_bytes, scale_offsets, blocks in FORMATS:
        data = random.integers(0, 256, (blocks, block_bytes), dtype=np.uint8)
        for block in data:
            for offset in scale_offsets:
                scale = np.float16(random.uniform(-0.5, 0.5))
                block[offset : offset + 2] = np.frombuffer(scale.tobytes(), np.uint8)
        values = quants.dequantize(data.reshape(-1), GGMLQuantizationType[name])
        bits = values.astype(np.float32).reshape(-1).view(np.uint32)
        print(f"    {{WeightType::k{name},\n    {{")
        print(rows([str(b) for b in data.reshape(-1)], 16))
        print("    },\n    {")
        print(rows([f"0x{b:08x}" for b in bits], 8))
        print("    }},")
    print("};")
    print("// clang-format on\n")
    print("}  // namespace encore::kernels")


if __name__ == "__main__":
    main()
