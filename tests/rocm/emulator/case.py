"""What a case is: inputs, launches, and what float64 arithmetic says they should give."""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from kernel_library import KernelLibrary, LiveRows, address
from memory import DeviceMemory

# Half a unit in the last place of bf16 is at most 2^-8 of a value; the rest is for the f32
# arithmetic before the rounding.
BF16_TOLERANCE = 2.0**-8 * 1.02


@dataclass
class Case:
    """`run` gives a Result; it takes all randomness from a generator of its own."""

    name: str
    shape: str
    run: Callable[["Device"], "Result"]


@dataclass
class Result:
    """What a case found. `outputs` must have the same bits whatever the order of waves."""

    error: float
    tolerance: float
    outputs: list[np.ndarray] = field(default_factory=list)


class Device:
    """One architecture's kernels and memory, as a case sees them. Memory lives as long as this."""

    def __init__(self, library: KernelLibrary):
        self.library = library
        self.traits = library.device
        self._memory = DeviceMemory()

    def empty(self, shape, dtype) -> np.ndarray:
        return self._memory.empty(shape, dtype)

    def copy(self, values) -> np.ndarray:
        return self._memory.copy(np.asarray(values))

    def bf16(self, values: np.ndarray) -> np.ndarray:
        """Rounded to nearest even; uint16."""
        return self._memory.copy(to_bf16(values))

    def live_rows(self, live: int, maximum: int) -> LiveRows:
        return LiveRows(address(self.copy(np.array([live], np.int32))), maximum)


def to_bf16(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(values: np.ndarray) -> np.ndarray:
    """To bf16 and back to float64."""
    return from_bf16(to_bf16(values))


def relative_error(found: np.ndarray, expected: np.ndarray, floor: float) -> float:
    """The largest |found - expected| / max(|expected|, floor). NaN counts as infinite."""
    error = np.abs(found - expected) / np.maximum(np.abs(expected), floor)
    return float("inf") if np.isnan(error).any() else float(error.max(initial=0.0))


def different(found: np.ndarray, expected: np.ndarray) -> float:
    """How many elements differ."""
    return float(np.count_nonzero(found != expected))


def untouched(array: np.ndarray) -> bool:
    """Whether all bytes are still poisoned."""
    return bool((np.ascontiguousarray(array).view(np.uint8) == 0xFF).all())
