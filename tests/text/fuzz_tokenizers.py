"""Compares Encore's tokenizers with the `tokenizers` library on random text.

    python fuzz_tokenizers.py PROBE_BINARY [--seconds 60] [--seed N] [--only NAME ...]

Needs `tokenizers` (and `gguf` for SmolLM2). Finds files by ENCORE_TEST_DATA and
ENCORE_TEST_MODELS. Checks ids with control tokens parsed and not, with and without added specials;
decoding; and that a stream of deltas equals the whole. Exit status 0: no difference; 1: a
difference, printed; 77: nothing could be compared.
"""

import argparse
import os
import random
import sys
import time

from reference import NAMES, Case, Probe

SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x30, 0x39), (0x00, 0x1F), (0x80, 0x24F),
    (0x2B0, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xFFF),
    (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE010), (0xFB00, 0xFFFD), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF), (0x20000, 0x20400), (0x10FFF0, 0x10FFFF)]
FRAGMENTS = [
    " ", "  ", "    ", " " * 17, " " * 70, "\n", "\n\n", "\r\n", "\t", "\t\t\t", "'s", "'LL", "'ſ",
    "don't", "1234567", "3.14159", "\u2581", "\u2581\u2581", "\u00a0", "\u200b", "\u200d", "\u3000",
    "e\u0301", "\u1100\u1161\u11a8", "\uac00\u11a8", "👨‍👩‍👧‍👦", "🇺🇳", "<0x41>", "def f(x):\n    return x",
    "https://example.org/?q=1&r=%20", "...", "——", "#####", "الْعَرَبِيَّة", "हिन्दी", "ไทย", "中文字符", "カタカナ",
    "한국어", "Ελληνικά", "русский", "\u180e", "\x85", "\x1c", "\ufeff", "the quick brown fox", "𝒳²"]


def random_piece(rng, added):
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(FRAGMENTS)
    if kind < 0.45:
        token = rng.choice(added)
        if rng.random() < 0.3:
            at = rng.randrange(len(token) + 1)
            token = token[:at] + rng.choice(["", " ", "x"]) + token[at + rng.randrange(2):]
        return token
    if kind < 0.55:
        return rng.choice(FRAGMENTS + [chr(rng.randrange(32, 127))]) * rng.randrange(1, 40)
    low, high = rng.choice(SCRIPTS)
    count = rng.randrange(1, 12)
    return "".join(chr(rng.randint(low, high)) for _ in range(count))


def random_text(rng, added):
    count = rng.choice([1, 1, 2, 3, 5, 10, 30, 100])
    text = "".join(random_piece(rng, added) for _ in range(count))
    return "".join(c for c in text if not 0xD800 <= ord(c) <= 0xDFFF)


def first_difference(found, expected):
    """The ids around the place where two lists part."""
    at = 0
    while at < min(len(found), len(expected)) and found[at] == expected[at]:
        at += 1
    around = slice(max(at - 4, 0), at + 8)
    return f"from {at}: {found[around]} != {expected[around]}"


def is_reference_decode(case, text):
    """Byte fallback decodes malformed runs otherwise there, on purpose: see Tokenizer::decode."""
    return case.name not in ("llama2", "gemma3") or "\ufffd" not in text


def check_text(case, probe, data):
    """Raises AssertionError on a difference."""
    text = data.decode("utf-8", "replace")
    for parse, reference in ((True, case.parsing), (False, case.literal)):
        for special in (True, False):
            expected = reference.encode(text, add_special_tokens=special).ids
            found = probe.encode(data, special, parse)
            assert found == expected, (
                f"ids parse={parse} special={special}: {first_difference(found, expected)}")
    ids = probe.encode(data, True, True)
    check_ids(case, probe, ids)


def check_ids(case, probe, ids):
    for skip in (True, False):
        whole = probe.decode(ids, skip)
        assert probe.decode(ids, skip, stream=True) == whole, f"stream of {ids}"
        expected = case.parsing.decode(ids, skip_special_tokens=skip)
        if is_reference_decode(case, expected):
            assert whole.decode() == expected, f"decode of {ids}: {whole} != {expected.encode()}"


def shrink(case, probe, data):
    """A shorter text that differs too, found by leaving out stretches."""
    size = len(data) // 2
    while size > 0:
        for at in range(0, len(data) - size + 1, size):
            shorter = data[:at] + data[at + size:]
            try:
                check_text(case, probe, shorter)
            except AssertionError:
                data = shorter
                break
        else:
            size //= 2
    return data


def fuzz(case, probe, seconds, rng):
    end = time.monotonic() + seconds
    count = 0
    size = case.parsing.get_vocab_size()
    while time.monotonic() < end:
        data = random_text(rng, case.added).encode()
        if rng.random() < 0.2:
            noise = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                at = rng.randrange(len(noise) + 1)
                noise[at:at] = bytes([rng.randrange(256)])
            data = bytes(noise)
        try:
            check_text(case, probe, data)
            check_ids(case, probe, [rng.randrange(size) for _ in range(rng.randrange(1, 20))])
        except (AssertionError, RuntimeError) as difference:
            print(f"{case.name}: {shrink(case, probe, data)!r}\n  {difference}")
            return count, False
        count += 1
    return count, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", nargs="*", default=NAMES)
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}")
    compared, good = 0, True
    for name in options.only:
        try:
            case = Case(name, os.environ.get("ENCORE_TEST_DATA"),
                        os.environ.get("ENCORE_TEST_MODELS"))
        except FileNotFoundError as missing:
            print(f"{name}: left out, no {missing}")
            continue
        probe = Probe(options.probe, case)
        count, same = fuzz(case, probe, options.seconds, random.Random(f"{seed} {name}"))
        probe.close()
        print(f"{name}: {count} texts, {'equal' if same else 'DIFFERENT'}", flush=True)
        compared += count
        good = good and same
    if not good:
        return 1
    return 0 if compared > 0 else 77


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ImportError as missing_package:
        print(f"skipped: {missing_package}")
        sys.exit(77)
