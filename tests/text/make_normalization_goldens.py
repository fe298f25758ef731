"""Writes goldens/normalization.json: texts and the four normal forms that `tokenizers` gives them.

    python make_normalization_goldens.py

A row is a text, then its NFC, NFD, NFKC and NFKD. Texts mix combining marks of many classes, Hangul,
compatibility characters and characters younger than Unicode 9, by a fixed generator.
"""

import json
import os
import random

from tokenizers import normalizers

MARKS = [*range(0x300, 0x370), 0x334, 0x5B0, 0x5BC, 0x64B, 0x651, 0x93C, 0x94D, 0xE38, 0xE48,
         0x1DC0, 0x20D0, 0x302A, 0x3099, 0x1D165, 0x1D16D]
HANGUL = [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3),
          *range(0xAC00, 0xAC40)]
COMPATIBILITY = [*range(0xA0, 0x180), *range(0x340, 0x345), *range(0x958, 0x960),
                 *range(0x1E00, 0x2000), *range(0x2100, 0x2150), *range(0x3200, 0x3400),
                 *range(0xF900, 0xFA00), *range(0xFB00, 0xFDFE), *range(0xFF00, 0xFFEF),
                 *range(0x1D400, 0x1D420), *range(0x2F800, 0x2F820)]
YOUNG = [0x8CA, 0x1ABF, 0x1DF6, 0x32FF, 0x11F34, 0x16D68, 0x1E08F]
SETS = [MARKS, MARKS, MARKS, HANGUL, COMPATIBILITY, YOUNG, list(map(ord, "aeoAEO "))]
NUM_TEXTS = 300


def main():
    rng = random.Random(20240612)
    forms = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()]
    rows = []
    for _ in range(NUM_TEXTS):
        text = "".join(chr(rng.choice(rng.choice(SETS))) for _ in range(rng.randrange(1, 24)))
        rows.append([text] + [form.normalize_str(text) for form in forms])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens/normalization.json")
    with open(path, "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
