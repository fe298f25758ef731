"""Paged attention: plan, decode in pieces, prefill on the matrix unit, and the plain path."""

import numpy as np

from case import Case, Device, Result, from_bf16, to_bf16, untouched
from kernel_library import (
    BF16,
    F16,
    AttentionArgs,
    AttentionBounds,
    AttentionInputs,
    AttentionShape,
    KvLayout,
    KvPages,
    address,
)

PLAIN = 0
# Of a head's vector, against its length: a weight and the result are each rounded once.
_TOLERANCE = {BF16: 1e-2, F16: 2e-3}
_NOBODY = 1 << 28  # what lies past the live requests, and must not be followed


def _encode(values: np.ndarray, element: int) -> np.ndarray:
    if element == BF16:
        return to_bf16(values)
    return values.astype(np.float16).view(np.uint16)


def _decode(bits: np.ndarray, element: int) -> np.ndarray:
    if element == BF16:
        return from_bf16(bits)
    return bits.view(np.float16).astype(np.float64)


class _Step:
    """Requests of (new tokens, all tokens), their pages scattered, NaN wherever no token is."""

    def __init__(self, device: Device, shape: AttentionShape, requests, max_requests: int):
        random = np.random.default_rng(10)
        kv, element = shape.kv, shape.element
        lengths = np.array(requests)
        pages_of = -(-lengths[:, 1] // kv.page_size)
        q_start = np.cumsum([0, *lengths[:, 0]])
        page_start = np.cumsum([0, *pages_of])
        num_pages = page_start[-1] + 5
        page_ids = random.permutation(num_pages - 1)[: page_start[-1]]
        self.num_tokens, self.max_tokens = int(q_start[-1]), int(q_start[-1]) + 3
        width = shape.num_heads * kv.head_dim
        q = device.empty((self.max_tokens, width + 16), np.uint16)
        q[: self.num_tokens, :width] = _encode(
            random.standard_normal((self.num_tokens, width)), element
        )
        pages = device.empty((num_pages, 2, kv.num_kv_heads, kv.page_size, kv.head_dim), np.uint16)
        self.keys_and_values = []  # of each request: [2, kv heads, tokens, head_dim]
        for r, (_, length) in enumerate(requests):
            drawn = _encode(
                random.standard_normal((2, kv.num_kv_heads, length, kv.head_dim)), element
            )
            for first in range(0, length, kv.page_size):
                page = page_ids[page_start[r] + first // kv.page_size]
                part = drawn[:, :, first : first + kv.page_size]
                pages[page, :, :, : part.shape[2]] = part
            self.keys_and_values.append(_decode(drawn, element))
        self.queries = _decode(q[: self.num_tokens, :width], element)
        self.y = device.empty((self.max_tokens, width + 8), np.uint16)

        def padded(values, count):
            array = np.full(count, _NOBODY, np.int32)
            array[: len(values)] = values
            return address(device.copy(array))

        self.inputs = AttentionInputs(
            padded([len(requests)], 1),
            padded(q_start, max_requests + 1),
            padded(lengths[:, 1], max_requests),
            padded(page_start, max_requests + 1),
            padded(page_ids, len(page_ids)),
        )
        self.pages = KvPages(address(pages), int(num_pages), kv)
        self.q, self.width, self.requests = q, width, requests
        self.scale = np.float32(2 / np.sqrt(kv.head_dim))  # twice the usual: a lost key shows

    def error(self, shape: AttentionShape) -> float:
        """The largest |found - expected| / |expected| over the heads' vectors."""
        found = _decode(self.y[: self.num_tokens, : self.width], shape.element)
        heads, head_dim = shape.num_heads, shape.kv.head_dim
        found = found.reshape(-1, heads, head_dim)
        queries = self.queries.reshape(-1, heads, head_dim)
        group = heads // shape.kv.num_kv_heads
        worst, row = 0.0, 0
        for (new, length), (keys, values) in zip(self.requests, self.keys_and_values):
            for i in range(new):
                visible = length - new + i + 1
                k = np.repeat(keys[:, :visible], group, axis=0)
                v = np.repeat(values[:, :visible], group, axis=0)
                scores = np.einsum("hd,hkd->hk", queries[row], k) * np.float64(self.scale)
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                expected = np.einsum("hk,hkd->hd", weights, v)
                difference = np.linalg.norm(found[row] - expected, axis=1)
                worst = max(worst, (difference / np.linalg.norm(expected, axis=1)).max())
                row += 1
        return float("inf") if np.isnan(found).any() else float(worst)


def _attention(
    device: Device, shape, requests, plain: bool, decode_only: bool, processors
) -> Result:
    max_requests = len(requests) + 2
    step = _Step(device, shape, requests, max_requests)
    bounds = AttentionBounds(step.max_tokens, max_requests, decode_only, processors)
    library = device.library
    path = PLAIN if plain else library.value("attention_path", shape, device.traits)
    if (path == PLAIN) != plain:
        raise RuntimeError(f"attention path {path} serves this shape")
    workspace_bytes = library.size("attention_workspace_bytes", shape, bounds, path)
    workspace = device.empty((max(workspace_bytes, 16),), np.uint8)
    workspace[...] = 0
    library.call("attention_plan", shape, bounds, path, step.inputs, pointers=[address(workspace)])
    args = AttentionArgs(
        step.inputs,
        step.pages,
        address(step.q),
        step.width + 16,
        address(step.y),
        step.width + 8,
        step.scale,
        address(workspace),
    )
    library.call("attention_run", shape, bounds, path, args)
    error = step.error(shape)
    if not untouched(step.y[step.num_tokens :]) or not untouched(step.y[:, step.width :]):
        error = np.inf
    return Result(error, _TOLERANCE[shape.element], [step.y])


def _case(name, heads, kv_heads, head_dim, page_size, requests, element=BF16, processors=4) -> Case:
    layout = KvLayout(element, kv_heads, head_dim, page_size)
    shape = AttentionShape(heads, layout, element)
    lengths = " ".join(f"{new}/{length}" for new, length in requests)
    kind = "f16" if element == F16 else "bf16"
    plain, decode_only = "plain" in name, "decode" in name
    return Case(
        f"attention {name}",
        f"{heads}/{kv_heads} x {head_dim} {kind}, pages of {page_size}: {lengths}",
        lambda device: _attention(device, shape, requests, plain, decode_only, processors),
    )


# Requests are written as new tokens / all tokens.
CASES = [
    _case("mixed", 6, 2, 64, 16, [(5, 37), (1, 130), (1, 1), (40, 40)]),
    _case("mixed", 8, 1, 128, 32, [(17, 100), (1, 80), (3, 3)], F16),
    _case("mixed", 4, 4, 96, 64, [(20, 90), (1, 65)]),
    _case("mixed", 10, 1, 64, 16, [(13, 70), (1, 33)]),
    _case("decode", 8, 2, 128, 16, [(1, 400), (1, 17), (1, 1)]),
    _case("decode", 3, 3, 64, 32, [(1, 300), (1, 31)], F16),
    _case("decode", 12, 1, 96, 16, [(1, 150)]),
    _case("plain", 4, 2, 40, 16, [(3, 20), (1, 33)]),
    _case("plain", 2, 1, 256, 64, [(2, 70)], F16),
]
