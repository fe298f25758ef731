"""Writes goldens/NAME.hashes: for each test line, 32 bits that stand for its ids.

    python make_tokenizer_goldens.py PRINT_TEST_LINES_BINARY [NAME ...]

Needs `tokenizers` (and `gguf` for SmolLM2), ENCORE_TEST_DATA and ENCORE_TEST_MODELS. A line's hash
is FNV-1a over two lists of ids, each element and each list's length as 32-bit little-endian
numbers: first with special tokens added and parsed, then with neither.
"""

import os
import struct
import subprocess
import sys

from reference import NAMES, Case


def read_lines(binary):
    data = subprocess.run([binary], stdout=subprocess.PIPE, check=True).stdout
    lines, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        lines.append(data[at + 4:at + 4 + size].decode("utf-8", "replace"))
        at += 4 + size
    return lines


def fnv1a(data):
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def pack(ids):
    return struct.pack(f"<{len(ids) + 1}I", len(ids), *ids)


def main():
    lines = read_lines(sys.argv[1])
    for name in sys.argv[2:] or NAMES:
        case = Case(name, os.environ.get("ENCORE_TEST_DATA"), os.environ.get("ENCORE_TEST_MODELS"))
        parsed = case.parsing.encode_batch_fast(lines, add_special_tokens=True)
        literal = case.literal.encode_batch_fast(lines, add_special_tokens=False)
        hashes = [fnv1a(pack(a.ids) + pack(b.ids)) for a, b in zip(parsed, literal)]
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens", name + ".hashes")
        with open(path, "wb") as file:
            file.write(struct.pack(f"<{len(hashes)}I", *hashes))
        print(name, len(hashes), "lines", sum(len(a.ids) for a in parsed), "ids")


if __name__ == "__main__":
    main()
