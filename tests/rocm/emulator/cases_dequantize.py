"""Each weight format of a file to bf16."""

import numpy as np

from case import BF16_TOLERANCE, Case, Device, Result, from_bf16, relative_error
from kernel_library import DequantizeArgs, address


# Each `decode` takes groups [n, bytes] uint8 and gives [n, elements] float64.
def _f16(groups: np.ndarray, at: int) -> np.ndarray:
    pair = np.ascontiguousarray(groups[:, at : at + 2])
    return pair.view(np.float16).astype(np.float64)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float64)


def _q8_0(groups):
    return _f16(groups, 0) * groups[:, 2:].view(np.int8)


def _q4_0(groups):
    return _f16(groups, 0) * (_nibbles(groups[:, 2:]) - 8)


def _q4_1(groups):
    return _f16(groups, 0) * _nibbles(groups[:, 4:]) + _f16(groups, 2)


def _scales_and_mins(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight 6-bit scales and eight 6-bit minima in twelve bytes."""
    low, middle, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    mins = np.concatenate([middle & 63, high >> 4 | (middle >> 6) << 4], axis=1)
    return scales.astype(np.float64), mins.astype(np.float64)


def _q45_k(groups, fifth_bits: bool):
    scales, mins = _scales_and_mins(groups[:, 4:16])
    packed = groups[:, 48 if fifth_bits else 16 :].reshape(-1, 4, 32)
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(-1, 8, 32)
    if fifth_bits:
        bits = groups[:, 16:48]
        codes = codes | np.stack([(bits >> part & 1) << 4 for part in range(8)], axis=1)
    scale = (_f16(groups, 0) * scales)[..., None]
    return (scale * codes - (_f16(groups, 2) * mins)[..., None]).reshape(-1, 256)


def _q6_k(groups):
    low = groups[:, :128].reshape(-1, 2, 2, 32)  # half, quarter within it, element
    high = groups[:, 128:192].reshape(-1, 2, 32)
    codes = np.empty((len(groups), 2, 4, 32))
    for quarter in range(4):
        nibble = low[:, :, quarter % 2] >> 4 * (quarter // 2) & 15
        codes[:, :, quarter] = (nibble | (high >> 2 * quarter & 3) << 4).astype(np.float64) - 32
    scales = groups[:, 192:208].view(np.int8).astype(np.float64)
    return _f16(groups, 208) * np.repeat(scales, 16, axis=1) * codes.reshape(-1, 256)


# number, elements and bytes of a group, where its f16 scales lie, decode
_FORMATS = {
    "f32": (1, 1, 4, [], lambda groups: groups.view(np.float32).astype(np.float64)),
    "f16": (2, 1, 2, [0], lambda groups: _f16(groups, 0)),
    "bf16": (3, 1, 2, [], lambda groups: from_bf16(groups.view(np.uint16))),
    "Q8_0": (32, 32, 34, [0], _q8_0),
    "Q4_0": (33, 32, 18, [0], _q4_0),
    "Q4_1": (34, 32, 20, [0, 2], _q4_1),
    "Q4_K": (35, 256, 144, [0, 2], lambda groups: _q45_k(groups, False)),
    "Q5_K": (36, 256, 176, [0, 2], lambda groups: _q45_k(groups, True)),
    "Q6_K": (37, 256, 210, [208], _q6_k),
}


def _dequantize(device: Device, name: str, elements: int) -> Result:
    number, group_elements, group_bytes, scales, decode = _FORMATS[name]
    random = np.random.default_rng(7)
    count = elements // group_elements
    groups = random.integers(0, 256, (count, group_bytes), np.uint8)
    for at in scales:  # neither subnormal nor infinite
        values = random.uniform(0.01, 0.1, (count, 1)).astype(np.float16)
        groups[:, at : at + 2] = values.view(np.uint8)
    if name == "f32":
        groups = random.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
    if name == "bf16":
        groups = groups & np.array([255, 191], np.uint8)  # finite
    source = device.copy(groups)
    destination = device.empty((elements,), np.uint16)
    args = DequantizeArgs(number, address(source), elements, address(destination))
    device.library.call("dequantize", args)
    found = from_bf16(destination).reshape(count, group_elements)
    error = relative_error(found, decode(groups), 1e-3)
    return Result(error, BF16_TOLERANCE, [destination])


def _case(name: str) -> Case:
    elements = 8192 + 3 * _FORMATS[name][1]
    return Case(
        "dequantize", f"{elements} elements of {name}", lambda d: _dequantize(d, name, elements)
    )


CASES = [_case(name) for name in _FORMATS]
