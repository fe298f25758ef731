"""The host side of kernels/gpu, called from Python: argument structures, and launches that run in
the emulator.

The structures mirror kernels/include/kernels/gpu/*.h field by field; the library's own sizes are
compared when it is loaded.
"""

import ctypes
import traceback
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

from machine import Dim3, Machine

F32, F16, BF16 = 1, 2, 3  # Element


def _structure(name: str, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


Launch = _structure("Launch", ("stream", c_void_p), ("overlap", ctypes.c_bool), ("lanes", c_int32))
LiveRows = _structure("LiveRows", ("live", c_void_p), ("maximum", c_int32))
RmsNormArgs = _structure(
    "RmsNormArgs",
    ("rows", LiveRows),
    ("x", c_void_p),
    ("x_stride", c_int64),
    ("weight", c_void_p),
    ("y", c_void_p),
    ("y_stride", c_int64),
    ("hidden_size", c_int32),
    ("eps", c_float),
)
EmbedArgs = _structure(
    "EmbedArgs",
    ("tokens", LiveRows),
    ("token_ids", c_void_p),
    ("previous_tokens", c_void_p),
    ("input_tokens", c_void_p),
    ("table", c_void_p),
    ("vocab_size", c_int32),
    ("hidden_size", c_int32),
    ("y", c_void_p),
)
GatherRowsArgs = _structure(
    "GatherRowsArgs",
    ("rows", LiveRows),
    ("index", c_void_p),
    ("x", c_void_p),
    ("y", c_void_p),
    ("columns", c_int32),
)
SiluMulArgs = _structure(
    "SiluMulArgs", ("rows", LiveRows), ("x", c_void_p), ("y", c_void_p), ("columns", c_int32)
)
AddBiasArgs = _structure(
    "AddBiasArgs", ("rows", LiveRows), ("x", c_void_p), ("bias", c_void_p), ("columns", c_int32)
)
KvLayout = _structure(
    "KvLayout",
    ("element", c_int32),
    ("num_kv_heads", c_int32),
    ("head_dim", c_int32),
    ("page_size", c_int32),
)
KvPages = _structure("KvPages", ("data", c_void_p), ("num_pages", c_int32), ("layout", KvLayout))
StepTablesArgs = _structure(
    "StepTablesArgs",
    ("tokens", LiveRows),
    ("positions", c_void_p),
    ("token_request", c_void_p),
    ("page_start", c_void_p),
    ("page_ids", c_void_p),
    ("inv_freq", c_void_p),
    ("attention_scale", c_float),
    ("rotary_dim", c_int32),
    ("page_size", c_int32),
    ("num_pages", c_int32),
    ("cos_sin", c_void_p),
    ("slots", c_void_p),
)
RopeKvArgs = _structure(
    "RopeKvArgs",
    ("tokens", LiveRows),
    ("qkv", c_void_p),
    ("qkv_stride", c_int64),
    ("q_norm_weight", c_void_p),
    ("k_norm_weight", c_void_p),
    ("norm_eps", c_float),
    ("pairing", c_int32),
    ("num_heads", c_int32),
    ("rotary_dim", c_int32),
    ("cos_sin", c_void_p),
    ("slots", c_void_p),
    ("kv", KvPages),
)
DequantizeArgs = _structure(
    "DequantizeArgs",
    ("format", c_int32),
    ("source", c_void_p),
    ("elements", c_int64),
    ("destination", c_void_p),
)
RowSampling = _structure(
    "RowSampling",
    ("temperature", c_float),
    ("top_p", c_float),
    ("min_p", c_float),
    ("repetition_penalty", c_float),
    ("presence_penalty", c_float),
    ("frequency_penalty", c_float),
    ("top_k", c_int32),
    ("num_logprobs", c_int32),
    ("seed", c_uint64),
    ("position", c_int64),
)
SampleArgs = _structure(
    "SampleArgs",
    ("rows", LiveRows),
    ("logits", c_void_p),
    ("logits_stride", c_int64),
    ("vocab_size", c_int32),
    ("num_valid_tokens", c_void_p),
    ("params", c_void_p),
    ("bias_start", c_void_p),
    ("biases", c_void_p),
    ("history_start", c_void_p),
    ("history", c_void_p),
    ("logit_rows", c_void_p),
    ("token_ids", c_void_p),
    ("input_tokens", c_void_p),
    ("tokens", c_void_p),
    ("row_status", c_void_p),
    ("token_logprobs", c_void_p),
    ("top_tokens", c_void_p),
    ("top_logprobs", c_void_p),
    ("max_logprobs", c_int32),
    ("workspace", c_void_p),
)
DeviceTraits = _structure(
    "DeviceTraits",
    ("compute_capability", c_int32),
    ("lanes", c_int32),
    ("matrix_unit", c_int32),
    ("num_processors", c_int32),
)
LinearShape = _structure(
    "LinearShape",
    ("m", c_int32),
    ("n", c_int32),
    ("k", c_int32),
    ("output", c_int32),
    ("accumulate", ctypes.c_bool),
)
LinearOperands = _structure(
    "LinearOperands", ("x", c_void_p), ("w", c_void_p), ("bias", c_void_p), ("y", c_void_p)
)
AttentionShape = _structure(
    "AttentionShape", ("num_heads", c_int32), ("kv", KvLayout), ("element", c_int32)
)
AttentionBounds = _structure(
    "AttentionBounds",
    ("max_tokens", c_int32),
    ("max_requests", c_int32),
    ("decode_only", ctypes.c_bool),
    ("num_processors", c_int32),
)
AttentionInputs = _structure(
    "AttentionInputs",
    ("num_requests", c_void_p),
    ("q_start", c_void_p),
    ("kv_len", c_void_p),
    ("page_start", c_void_p),
    ("page_ids", c_void_p),
)
AttentionArgs = _structure(
    "AttentionArgs",
    ("inputs", AttentionInputs),
    ("kv", KvPages),
    ("q", c_void_p),
    ("q_stride", c_int64),
    ("y", c_void_p),
    ("y_stride", c_int64),
    ("scale", c_float),
    ("workspace", c_void_p),
)
_MIRRORED = [
    Launch,
    RmsNormArgs,
    EmbedArgs,
    GatherRowsArgs,
    SiluMulArgs,
    AddBiasArgs,
    StepTablesArgs,
    RopeKvArgs,
    DequantizeArgs,
    SampleArgs,
    DeviceTraits,
    LinearShape,
    LinearOperands,
    AttentionShape,
    AttentionBounds,
    AttentionInputs,
    AttentionArgs,
]

# What the plugin finds of each architecture.
_MFMA, _WMMA = 2, 3  # MatrixUnit
_LANES_AND_UNIT = {"gfx90a": (64, _MFMA), "gfx942": (64, _MFMA), "gfx1100": (32, _WMMA)}


def address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


class KernelLibrary:
    """libencore_emulated_kernels, its launches run by `machine`."""

    _RunKernel = ctypes.CFUNCTYPE(
        c_int32, ctypes.c_char_p, POINTER(c_uint32), POINTER(c_uint32), c_uint64, c_void_p
    )

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)
        self._machine: Machine | None = None
        self._failure = ""
        self._run = self._RunKernel(self._run_kernel)
        self._library.encore_emulator_set_run_kernel(self._run)
        for structure in _MIRRORED:
            name = structure.__name__
            expected = c_size_t.in_dll(self._library, f"encore_sizeof_{name}").value
            if ctypes.sizeof(structure) != expected:
                raise RuntimeError(
                    f"{name}: {ctypes.sizeof(structure)} bytes in kernel_library.py, {expected} in "
                    "the header; update the former"
                )

    def _run_kernel(self, name, grid, block, dynamic_lds_bytes, arguments) -> int:
        try:
            self._machine.launch(
                name.decode(), Dim3(*grid[:3]), Dim3(*block[:3]), dynamic_lds_bytes, arguments
            )
            return 1
        except Exception:  # pylint: disable=broad-exception-caught: it may not pass through C++
            self._failure = traceback.format_exc()
            return 0

    def use(self, machine: Machine):
        self._machine = machine
        lanes, unit = _LANES_AND_UNIT[machine.target]
        self._launch = Launch(None, False, lanes)
        self.device = DeviceTraits(0, lanes, unit, 4)

    def call(self, entry: str, *structures, pointers=()):
        """Calls encore_emulator_<entry>(structures..., pointers..., launch)."""
        function = getattr(self._library, f"encore_emulator_{entry}")
        function.restype = c_int32
        arguments = [byref(s) if isinstance(s, ctypes.Structure) else s for s in structures]
        self._failure = ""
        error = function(*arguments, *[c_void_p(p) for p in pointers], byref(self._launch))
        if self._failure:
            raise RuntimeError(self._failure)
        if error:
            raise RuntimeError(f"{entry}: error {error} before any launch")

    def size(self, entry: str, *arguments) -> int:
        return self._plain_call(entry, c_size_t, arguments)

    def value(self, entry: str, *arguments) -> int:
        return self._plain_call(entry, c_int32, arguments)

    def _plain_call(self, entry: str, kind, arguments) -> int:
        function = getattr(self._library, f"encore_emulator_{entry}")
        function.restype = kind
        return function(*[byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments])
