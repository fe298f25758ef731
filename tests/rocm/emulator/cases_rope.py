"""Step tables; rotary embedding with and without q/k norm, and the write into the KV cache."""

import numpy as np

from case import (
    BF16_TOLERANCE,
    Case,
    Device,
    Result,
    different,
    from_bf16,
    relative_error,
    rounded,
    untouched,
)
from kernel_library import BF16, KvLayout, KvPages, RopeKvArgs, StepTablesArgs, address

HALF_SPLIT, ADJACENT = 0, 1


def _step_tables(device: Device, rotary_dim: int) -> Result:
    page_size, num_pages, live, maximum = 16, 9, 6, 8
    positions = np.array([0, 15, 16, 1048575, 40, 3, 0, 0], np.int32)
    request = np.array([0, 0, 0, 1, 1, -1, 0, 0], np.int32)
    page_start = np.array([0, 2, 5], np.int32)
    page_ids = np.array([7, 2, 0, 8, 5], np.int32)
    # Token 3 lies past its request's pages; token 5 is of no request.
    slots_expected = np.array([7 * 16, 7 * 16 + 15, 2 * 16, -1, 5 * 16 + 8, -1, -1, -1])
    inverse = (10000.0 ** (-np.arange(rotary_dim // 2) * 2 / rotary_dim)).astype(np.float32)
    cos_sin = device.empty((maximum, rotary_dim), np.float32)
    slots = device.empty((maximum,), np.int32)
    scale = np.float32(1.25)
    args = StepTablesArgs(
        device.live_rows(live, maximum),
        address(device.copy(positions)),
        address(device.copy(request)),
        address(device.copy(page_start)),
        address(device.copy(page_ids)),
        address(device.copy(inverse)),
        scale,
        rotary_dim,
        page_size,
        num_pages,
        address(cos_sin),
        address(slots),
    )
    device.library.call("step_tables", args)
    angles = positions[:live, None].astype(np.float64) * inverse.astype(np.float64)
    expected = np.float64(scale) * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    error = float(np.abs(cos_sin[:live] - expected).max())
    if different(slots, slots_expected) or not untouched(cos_sin[live:]):
        error = np.inf
    return Result(error, 2.0**-22, [cos_sin, slots])


def _rotate(x: np.ndarray, cosines, sines, rotary_dim: int, pairing: int) -> np.ndarray:
    """x [tokens, heads, head_dim]."""
    half = rotary_dim // 2
    a, b = (slice(0, half), slice(half, rotary_dim))
    if pairing == ADJACENT:
        a, b = (slice(0, rotary_dim, 2), slice(1, rotary_dim, 2))
    y = x.copy()
    y[..., a] = x[..., a] * cosines - x[..., b] * sines
    y[..., b] = x[..., b] * cosines + x[..., a] * sines
    return y


def _rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


def _rope(device: Device, head_dim, rotary_dim, pairing, norm: bool, maximum: int) -> Result:
    random = np.random.default_rng(6)
    heads, kv_heads, page_size, num_pages, live = 6, 2, 16, 3, 5
    columns = (heads + 2 * kv_heads) * head_dim
    stride = columns + 8
    # Rows from the live ones on may be read: 0 there would be as good as what they hold.
    qkv_in = rounded(random.standard_normal((maximum, stride)))
    angles = random.uniform(-np.pi, np.pi, (maximum, rotary_dim // 2))
    cos_sin = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    slots = np.full(maximum, -1, np.int32)
    slots[:live] = [0, 17, -1, 16, 31]
    q_weight, k_weight = (rounded(1 + 0.2 * random.standard_normal(head_dim)) for _ in range(2))
    eps = np.float32(1e-6)
    qkv = device.bf16(qkv_in)
    pages = device.empty((num_pages, 2, kv_heads, page_size, head_dim), np.uint16)
    args = RopeKvArgs(
        device.live_rows(live, maximum),
        address(qkv),
        stride,
        address(device.bf16(q_weight)) if norm else None,
        address(device.bf16(k_weight)) if norm else None,
        eps,
        pairing,
        heads,
        rotary_dim,
        address(device.copy(cos_sin)),
        address(device.copy(slots)),
        KvPages(address(pages), num_pages, KvLayout(BF16, kv_heads, head_dim, page_size)),
    )
    device.library.call("rope_kv_write", args)

    x = qkv_in[:live, :columns].reshape(live, heads + 2 * kv_heads, head_dim)
    q, k, v = np.split(x, [heads, heads + kv_heads], axis=1)
    if norm:
        q, k = _rms_norm(q, q_weight, np.float64(eps)), _rms_norm(k, k_weight, np.float64(eps))
    tables = cos_sin[:live, None].astype(np.float64)
    cosines, sines = np.split(tables, 2, axis=-1)
    q, k = (_rotate(part, cosines, sines, rotary_dim, pairing) for part in (q, k))
    found = from_bf16(qkv[:live, : heads * head_dim]).reshape(q.shape)
    error = relative_error(found, q, 1e-3)
    written = np.zeros((num_pages, page_size), bool)
    for token in np.flatnonzero(slots >= 0):
        page, row = divmod(slots[token], page_size)
        written[page, row] = True
        error = max(error, relative_error(from_bf16(pages[page, 0, :, row]), k[token], 1e-3))
        error = max(error, relative_error(from_bf16(pages[page, 1, :, row]), v[token], 1e-3))
    others = pages.transpose(0, 3, 1, 2, 4)[~written]
    if not untouched(others):
        error = np.inf
    return Result(error, BF16_TOLERANCE, [qkv, pages])


def _rope_case(head_dim, rotary_dim, pairing, norm, maximum=6) -> Case:
    style = "pairs" if pairing == ADJACENT else "halves"
    shape = f"5 of {maximum} tokens, 6/2 heads x {head_dim}, {rotary_dim} in {style}"
    return Case(
        "rope_kv_write",
        shape + (", norm" if norm else ""),
        lambda device: _rope(device, head_dim, rotary_dim, pairing, norm, maximum),
    )


CASES = [
    Case("step_tables", "6 of 8 tokens, rotary_dim 40", lambda device: _step_tables(device, 40)),
    _rope_case(64, 64, HALF_SPLIT, False),
    _rope_case(128, 128, HALF_SPLIT, True),
    _rope_case(96, 48, ADJACENT, False),
    _rope_case(80, 32, ADJACENT, True),
    _rope_case(64, 64, HALF_SPLIT, True, maximum=513),
]
