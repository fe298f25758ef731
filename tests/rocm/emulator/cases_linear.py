"""Matrix products of our own: streaming for few rows, tiles on the matrix unit beyond."""

import numpy as np

from case import BF16_TOLERANCE, Case, Device, Result, from_bf16, relative_error, rounded
from kernel_library import BF16, F32, DeviceTraits, LinearOperands, LinearShape, address


def _linear(device: Device, m, n, k, output, bias: bool, accumulate: bool, processors) -> Result:
    random = np.random.default_rng(8)
    x, w = rounded(random.standard_normal((m, k))), rounded(random.standard_normal((n, k)))
    added = rounded(random.standard_normal(n)) if bias else np.zeros(n)
    before = rounded(4 * random.standard_normal((m, n)))
    if output == F32:
        y = (
            device.copy(before.astype(np.float32))
            if accumulate
            else device.empty((m, n), np.float32)
        )
    else:
        y = device.bf16(before) if accumulate else device.empty((m, n), np.uint16)
    operands = LinearOperands(
        address(device.bf16(x)),
        address(device.bf16(w)),
        address(device.bf16(added)) if bias else None,
        address(y),
    )
    traits = DeviceTraits(0, device.traits.lanes, device.traits.matrix_unit, processors)
    device.library.call("linear", LinearShape(m, n, k, output, accumulate), operands, traits)
    expected = x @ w.T + added + (before if accumulate else 0)
    if output == F32:
        # Errors of a sum in f32 are at most one rounding a term, of the terms' magnitudes.
        magnitude = np.abs(x) @ np.abs(w).T + np.abs(before)
        error = float((np.abs(y - expected) / magnitude).max())
        return Result(error, 2.0**-22, [y])
    error = relative_error(from_bf16(y), expected, 1e-2 * np.sqrt(k))
    return Result(error, BF16_TOLERANCE, [y])


def _case(m, n, k, output=BF16, bias=False, accumulate=False, processors=4) -> Case:
    extras = (", bias" if bias else "") + (", added to y" if accumulate else "")
    kind = "f32" if output == F32 else "bf16"
    return Case(
        "linear " + ("streaming" if m <= 8 else "tiles"),
        f"{m} x {n} x {k}, {kind}{extras}",
        lambda device: _linear(device, m, n, k, output, bias, accumulate, processors),
    )


CASES = [
    _case(1, 24, 2312),  # two chunks of k
    _case(2, 16, 136, bias=True),
    _case(3, 40, 520, F32, accumulate=True),
    _case(7, 72, 264, bias=True, accumulate=True, processors=1),  # several columns a warp
    _case(17, 72, 104, bias=True),
    _case(70, 136, 72, F32),
    _case(33, 64, 40, F32, accumulate=True),
    _case(64, 80, 200, bias=True, accumulate=True),
    _case(131, 136, 72, bias=True, processors=1),  # large blocks
]
