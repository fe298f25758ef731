"""Device memory for emulated kernels: this process's own, each buffer ended by a page that faults.

An emulated instruction reads and writes host addresses, so a pointer given to a kernel is the
address of a numpy array. A buffer's last byte lies just before a page without access rights: what
reads or writes past the end ends the process with a segmentation fault instead of a wrong number.
"""

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22

POISON = 0xFF  # every byte: a NaN in f32, f16 and bf16, -1 in integers


class GuardedBytes:
    """`size` bytes between two pages without access rights, the end against the upper one (up to
    16-byte alignment). Filled with POISON."""

    def __init__(self, size: int, alignment: int = 16):
        self.size = size
        padded = -(-max(size, 1) // alignment) * alignment
        body = -(-padded // mmap.PAGESIZE) * mmap.PAGESIZE
        self._total = body + 2 * mmap.PAGESIZE
        base = _libc.mmap(None, self._total, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"mmap of {self._total} bytes: errno {ctypes.get_errno()}")
        self._base = base
        _libc.mprotect(base, mmap.PAGESIZE, 0)
        _libc.mprotect(base + mmap.PAGESIZE + body, mmap.PAGESIZE, 0)
        self.address = base + mmap.PAGESIZE + body - padded
        ctypes.memset(self.address, POISON, padded)

    def bytes(self) -> np.ndarray:
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))

    def __del__(self):
        if hasattr(self, "_base"):
            _libc.munmap(self._base, self._total)


class DeviceMemory:
    """Buffers of one case, kept until it ends."""

    def __init__(self):
        self._buffers: list[GuardedBytes] = []

    def empty(self, shape, dtype) -> np.ndarray:
        """Poisoned. `.ctypes.data` is the device address."""
        count = int(np.prod(shape))
        buffer = GuardedBytes(count * np.dtype(dtype).itemsize)
        self._buffers.append(buffer)
        return buffer.bytes().view(dtype).reshape(shape)

    def copy(self, values: np.ndarray) -> np.ndarray:
        array = self.empty(values.shape, values.dtype)
        array[...] = values
        return array
