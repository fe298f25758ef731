"""Prints core/src/text/unicode_additions.h.

    python3.11 make_unicode_additions.py > ../../core/src/text/unicode_additions.h

Compares what the `tokenizers` library's expression engine thinks of every code point with Unicode
14, which Python 3.11's unicodedata and PCRE2 10.42 have.
"""

import unicodedata

from tokenizers import Regex, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
PROPERTIES = ["Alphabetic", "Arabic", "Cyrillic", "Devanagari", "Han", "Hiragana", "Katakana", "L",
              "Latin", "Ll", "Lm", "Lo", "Lowercase", "Lu", "M", "N", "Nd", "P", "S", "Uppercase"]


def members(name):
    """The code points that \\p{name} matches."""
    split = pre_tokenizers.Split(Regex(r"\p{%s}+" % name), "removed")
    found = set()
    for start in range(0, len(CODE_POINTS), 4096):
        chunk = CODE_POINTS[start:start + 4096]
        left = set()
        for text, _ in split.pre_tokenize_str("".join(map(chr, chunk))):
            left.update(map(ord, text))
        found.update(c for c in chunk if c not in left)
    return found


def ranges(points):
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def spell(low, high):
    return rf"\x{{{low:X}}}" if low == high else rf"\x{{{low:X}}}-\x{{{high:X}}}"


def main():
    assert unicodedata.unidata_version == "14.0.0", "run with Python 3.11"
    print("// Made by tests/text/make_unicode_additions.py. Do not edit.")
    print("//")
    print("// Characters that Unicode gave a property after version 14, as members of a class.")
    print("#pragma once\n\n#include <string_view>\n\nnamespace encore {\n")
    print("struct UnicodeAddition {\n  std::string_view property;\n  std::string_view members;\n};\n")
    print("// clang-format off\ninline constexpr UnicodeAddition kUnicodeAdditions[] = {")
    for name in PROPERTIES:
        young = {c for c in members(name) if unicodedata.category(chr(c)) == "Cn"}
        parts = [spell(*r) for r in ranges(young)]
        print(f'    {{"{name}",')
        line = ""
        for part in parts:
            if len(line) + len(part) > 80:
                print(f'     R"({line})"')
                line = ""
            line += part
        print(f'     R"({line})"}},')
    print("};\n// clang-format on\n\n}  // namespace encore")


if __name__ == "__main__":
    main()
