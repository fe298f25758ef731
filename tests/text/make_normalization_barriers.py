"""Prints core/src/text/normalization_barriers.h.

    python3.11 make_normalization_barriers.py > ../../core/src/text/normalization_barriers.h

The `tokenizers` library normalizes by Unicode 9: younger characters neither decompose, compose nor
reorder. This lists those of them that newer tables would change.
"""

import unicodedata

from tokenizers import normalizers

from make_unicode_additions import CODE_POINTS, members, ranges

# Marks of known combining class, in rising order.
MARKS = "\u0334\u093c\u094d\u0e38\u0323\u0300\u0345"


def behaves_differently(reference, c):
    char = chr(c)
    texts = [char] + ["a" + pair for m in MARKS for pair in (char + m, m + char)]
    return any(reference.normalize_str(t) != unicodedata.normalize("NFKD", t) for t in texts)


def main():
    assert unicodedata.unidata_version == "14.0.0", "run with Python 3.11"
    reference = normalizers.NFKD()
    barriers = {c for c in CODE_POINTS if c >= 0x300 and behaves_differently(reference, c)}
    for c in list(barriers):  # what a canonical composition would start from
        parts = unicodedata.decomposition(chr(c)).split()
        if parts and not parts[0].startswith("<"):
            barriers.update(int(part, 16) for part in parts)
    for name in ("L", "M"):  # younger than Unicode 14
        old = {c for c in CODE_POINTS if unicodedata.category(chr(c)).startswith(name)}
        barriers |= members(name) - old
    print("// Made by tests/text/make_normalization_barriers.py. Do not edit.")
    print("//\n// Characters younger than Unicode 9 that newer tables would normalize.")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace encore {\n")
    print("struct CodePointRange {\n  uint32_t first, last;\n};\n")
    print("// clang-format off\ninline constexpr CodePointRange kNormalizationBarriers[] = {")
    line = "   "
    for low, high in ranges(barriers):
        part = f" {{0x{low:X}, 0x{high:X}}},"
        if len(line) + len(part) > 100:
            print(line)
            line = "   "
        line += part
    print(line)
    print("};\n// clang-format on\n\n}  // namespace encore")


if __name__ == "__main__":
    main()
