"""Writes sample_golden.inc: what a plain float64 sampler chooses. Needs numpy only.

The sampler here sorts all tokens and renormalises after every filter, unlike the kernel. A case in
which any decision is closer than 1e-5 to its border is dropped: f32 could decide otherwise.
"""

import math
import random
import sys

import numpy as np

VOCAB = 96
VALID = 90  # ids from here on are never sampled


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# Known answers of the Random123 library.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [
    0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def uniform(seed, position):
    w = philox([position & 0xFFFFFFFF, position >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
    return ((w[0] | (w[1] << 32)) >> 11) / 2.0**53


def logits_of(case):
    """Multiples of 1/128, exact in f32; the test makes the same."""
    ids = np.arange(VOCAB, dtype=np.uint64)
    mixed = (ids * np.uint64(2654435761) + np.uint64(case * 2246822519 + 374761393)) % (1 << 32)
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % (1 << 32)
    return ((mixed >> np.uint64(16)) % np.uint64(1601)).astype(np.float64) / 128.0 - 6.25


class Close(Exception):
    pass


def border(distance):
    if abs(distance) < 1e-5:
        raise Close


def sample(x, p, bias, history, pending):
    raw = x[:VALID].copy()
    shifted = raw - raw.max()
    logprobs = shifted - math.log(np.exp(shifted).sum())
    y = raw.copy()
    for token, value in bias:
        if token < VALID:
            y[token] += value
    output = {t: o for t, _, o in history}
    prompt = {t: n for t, n, _ in history}
    if pending >= 0:
        output[pending] = output.get(pending, 0) + 1
    for token in set(output) | set(prompt):
        count = output.get(token, 0)
        if token >= VALID or count + prompt.get(token, 0) == 0:
            continue
        y[token] = y[token] / p["rep"] if y[token] > 0 else y[token] * p["rep"]
        if count > 0:
            y[token] -= p["freq"] * count + p["pres"]
    top = np.argsort(-raw, kind="stable")[:5]
    if p["temperature"] <= 1e-4:
        order = np.argsort(-y, kind="stable")
        if y[order[0]] != y[order[1]]:
            border(y[order[0]] - y[order[1]])
        return int(order[0]), logprobs, top

    z = (y - y.max()) / p["temperature"]
    probs = np.exp(z) / np.exp(z).sum()
    if p["min_p"] > 0:
        share = probs / probs.max()
        for s in share:
            if s != 1.0:
                border(s - p["min_p"])
        probs = np.where(share >= p["min_p"], probs, 0)
        probs = probs / probs.sum()
    if 0 < p["top_k"] < VALID:
        order = np.argsort(-probs, kind="stable")
        probs[order[p["top_k"]:]] = 0
        probs = probs / probs.sum()
    if p["top_p"] < 1:
        order = np.argsort(-probs, kind="stable")
        total = np.cumsum(probs[order])
        for t in total:
            border(t - p["top_p"])
        probs[order[np.searchsorted(total, p["top_p"]) + 1:]] = 0
        probs = probs / probs.sum()
    cdf = np.cumsum(probs)
    u = uniform(p["seed"], p["position"])
    for c in cdf[:-1]:
        if 0 < c < 1:
            border(c - u)
    token = min(int(np.searchsorted(cdf, u, side="right")), VALID - 1)
    assert probs[token] > 0
    return token, logprobs, top


def braces(values):
    return "{" + ", ".join(values) + "}"


def number(value):
    if value == -math.inf:
        return "-kInfinity"
    text = repr(float(np.float32(value))) if value != int(value) else f"{value:.1f}"
    return f"{float(np.float32(value)):.9g}F" if "." in f"{float(np.float32(value)):.9g}" else text + "F"


def main(path):
    rng = random.Random(20261130)
    lines = []
    case = 0
    while len(lines) < 80:
        case += 1
        p = {
            "temperature": rng.choice([0.0, 0.3, 0.7, 1.0, 1.3, 4.0]),
            "top_p": rng.choice([1.0, 1.0, 0.95, 0.8, 0.5, 0.1]),
            "min_p": rng.choice([0.0, 0.0, 0.0, 0.02, 0.25, 1.0]),
            "top_k": rng.choice([-1, 0, 0, 1, 3, 20, 95]),
            "rep": rng.choice([1.0, 1.0, 1.25, 0.8]),
            "pres": rng.choice([0.0, 0.0, 0.5, -0.75]),
            "freq": rng.choice([0.0, 0.0, 0.25]),
            "seed": rng.choice([0, 1, 42, 0xFEDCBA9876543210]),
            "position": rng.choice([0, 1, 17, 4095, 5 << 32]),
        }
        bias = []
        if rng.random() < 0.5:
            for token in rng.sample(range(VOCAB), rng.randint(1, 5)):
                bias.append((token, rng.choice([-math.inf, 2.5, -3.0, 8.0])))
        history = []
        if rng.random() < 0.7:
            for token in rng.sample(range(VOCAB), rng.randint(1, 8)):
                history.append((token, rng.randint(0, 2), rng.randint(0, 3)))
        pending = -1
        if rng.random() < 0.4:
            pending = rng.choice([t for t, _, _ in history]) if history and rng.random() < 0.5 \
                else rng.randrange(VALID)
        x = logits_of(case)
        # f32 parameters, as the kernel gets them
        for key in ("temperature", "top_p", "min_p", "rep", "pres", "freq"):
            p[key] = float(np.float32(p[key]))
        try:
            token, logprobs, top = sample(x, p, bias, history, pending)
        except Close:
            continue
        params = [number(p[k]) for k in ("temperature", "top_p", "min_p", "rep", "pres", "freq")]
        params += [str(p["top_k"]), "5", f"{p['seed']}ULL", str(p["position"])]
        lines.append(braces([
            str(case), braces(params),
            braces(braces([str(t), number(v)]) for t, v in bias),
            braces(braces(map(str, h)) for h in history),
            str(pending), str(token), f"{logprobs[token]:.9g}",
            braces(map(str, top)), braces(f"{logprobs[t]:.9g}" for t in top)]) + ",")
    with open(path, "w") as out:
        out.write("// Made by make_sample_golden.py.\n// clang-format off\n")
        out.write("\n".join(lines) + "\n// clang-format on\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sample_golden.inc")
