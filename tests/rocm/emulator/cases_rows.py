"""Embedding, gather, SiLU-mul, bias, RMS norm."""

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
    to_bf16,
    untouched,
)
from kernel_library import AddBiasArgs, EmbedArgs, GatherRowsArgs, RmsNormArgs, SiluMulArgs, address


def _embed(device: Device, hidden: int) -> Result:
    random = np.random.default_rng(1)
    vocab, live, maximum = 19, 5, 7
    table = device.bf16(random.standard_normal((vocab, hidden)))
    previous = np.array([11, 18], np.int32)
    ids = np.array([3, -1, 0, vocab, -2, 1, 1], np.int32)  # of row 0, past the end, of row 1
    resolved = np.array([3, 11, 0, vocab, 18], np.int32)
    y = device.empty((maximum, hidden), np.uint16)
    inputs = device.empty((maximum,), np.int32)
    args = EmbedArgs(
        device.live_rows(live, maximum),
        address(device.copy(ids)),
        address(device.copy(previous)),
        address(inputs),
        address(table),
        vocab,
        hidden,
        address(y),
    )
    device.library.call("embed", args)
    expected = np.zeros((live, hidden), np.uint16)
    known = resolved < vocab
    expected[known] = table[resolved[known]]
    error = different(y[:live], expected) + different(inputs[:live], resolved)
    error += 0 if untouched(y[live:]) and untouched(inputs[live:]) else 1
    return Result(error, 0, [y, inputs])


def _gather(device: Device, columns: int) -> Result:
    random = np.random.default_rng(2)
    live, maximum = 3, 5
    x = device.bf16(random.standard_normal((6, columns)))
    index = np.array([5, 0, 5, 77777, -3], np.int32)
    y = device.empty((maximum, columns), np.uint16)
    args = GatherRowsArgs(
        device.live_rows(live, maximum),
        address(device.copy(index)),
        address(x),
        address(y),
        columns,
    )
    device.library.call("gather_rows", args)
    expected = np.zeros((maximum, columns), np.uint16)
    expected[:live] = x[index[:live]]
    return Result(different(y, expected), 0, [y])


def _silu_mul(device: Device, columns: int) -> Result:
    random = np.random.default_rng(3)
    live, maximum = 3, 4
    x = rounded(4 * random.standard_normal((maximum, 2 * columns)))
    y = device.empty((maximum, columns), np.uint16)
    args = SiluMulArgs(
        device.live_rows(live, maximum), address(device.bf16(x)), address(y), columns
    )
    device.library.call("silu_mul", args)
    gate, up = x[:live, :columns], x[:live, columns:]
    expected = gate / (1 + np.exp(-gate)) * up
    error = relative_error(from_bf16(y[:live]), expected, 1e-6)
    return Result(error if untouched(y[live:]) else np.inf, BF16_TOLERANCE, [y])


def _add_bias(device: Device, columns: int) -> Result:
    random = np.random.default_rng(4)
    live, maximum = 3, 4
    x = rounded(random.standard_normal((maximum, columns)))
    bias = rounded(random.standard_normal(columns))
    y = device.bf16(x)
    args = AddBiasArgs(
        device.live_rows(live, maximum), address(y), address(device.bf16(bias)), columns
    )
    device.library.call("add_bias", args)
    error = relative_error(from_bf16(y[:live]), x[:live] + bias, 1e-6)
    error = error if different(y[live:], to_bf16(x[live:])) == 0 else np.inf
    return Result(error, BF16_TOLERANCE, [y])


def _rms_norm(device: Device, hidden: int) -> Result:
    random = np.random.default_rng(5)
    live, maximum, eps = 3, 4, 1e-5
    x = rounded(random.standard_normal((maximum, hidden)) * [[1], [1e-3], [30], [1]])
    weight = rounded(1 + 0.2 * random.standard_normal(hidden))
    stride = hidden + 8
    wide = np.full((maximum, stride), np.nan)
    wide[:, :hidden] = x
    y = device.empty((maximum, hidden), np.uint16)
    args = RmsNormArgs(
        device.live_rows(live, maximum),
        address(device.bf16(wide)),
        stride,
        address(device.bf16(weight)),
        address(y),
        hidden,
        hidden,
        eps,
    )
    device.library.call("rms_norm", args)
    scale = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + np.float64(np.float32(eps)))
    error = relative_error(from_bf16(y[:live]), (x * scale * weight)[:live], 1e-6)
    return Result(error if untouched(y[live:]) else np.inf, BF16_TOLERANCE, [y])


CASES = [
    Case("embed", "5 of 7 rows x 264", lambda d: _embed(d, 264)),
    Case("gather_rows", "3 of 5 rows x 264", lambda d: _gather(d, 264)),
    Case("silu_mul", "3 of 4 rows x 136", lambda d: _silu_mul(d, 136)),
    Case("add_bias", "3 of 4 rows x 72", lambda d: _add_bias(d, 72)),
    Case("rms_norm", "3 of 4 rows x 200", lambda d: _rms_norm(d, 200)),
    Case("rms_norm", "3 of 4 rows x 2056", lambda d: _rms_norm(d, 2056)),
]
