"""AMD code objects: the kernels of an ELF file, as the loader of a run-time reads them.

Layouts are those of LLVM's "User Guide for AMDGPU Backend": kernel descriptor, code object metadata
(version 3 and later), hidden kernel arguments.
"""

import mmap
import ctypes
import struct
from dataclasses import dataclass, field

import msgpack

SHT_NOTE, PT_LOAD, NT_AMDGPU_METADATA = 7, 1, 32


@dataclass
class Argument:
    """One kernel argument: where it lies in the kernel argument segment, and what it is."""

    offset: int  # bytes
    size: int  # bytes
    kind: str  # by_value, global_buffer, or a hidden_* name


@dataclass
class Kernel:
    """One kernel of a loaded code object."""

    name: str  # mangled
    entry: int  # address of its first instruction
    group_segment_bytes: int  # LDS, without the dynamic part
    private_segment_bytes: int  # scratch of a lane
    kernarg_bytes: int
    rsrc2: int  # COMPUTE_PGM_RSRC2
    properties: int  # KERNEL_CODE_PROPERTIES
    wavefront_size: int
    vgprs: int  # architectural and accumulation registers together
    sgprs: int
    vgpr_spills: int
    arguments: list[Argument] = field(default_factory=list)


def _unbundle(file: bytes) -> bytes:
    """The code object of a clang offload bundle that holds one; another file as it is."""
    magic = b"__CLANG_OFFLOAD_BUNDLE__"
    if not file.startswith(magic):
        return file
    (count,) = struct.unpack_from("<Q", file, len(magic))
    at, objects = len(magic) + 8, []
    for _ in range(count):
        offset, size, name_bytes = struct.unpack_from("<QQQ", file, at)
        if b"amdgcn" in file[at + 24 : at + 24 + name_bytes]:
            objects.append(file[offset : offset + size])
        at += 24 + name_bytes
    if len(objects) != 1:
        raise ValueError(
            f"an offload bundle of {len(objects)} code objects; give one architecture's"
        )
    return objects[0]


class CodeObject:
    """A code object, loaded into this process's memory. `kernels` are by mangled name."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self._file = _unbundle(file.read())
        if self._file[:4] != b"\x7fELF" or self._file[18:20] != b"\xe0\x00":
            raise ValueError(
                f"{path}: not an AMDGPU ELF file; give what clang's --cuda-device-only writes"
            )
        self._memory = mmap.mmap(-1, self._load_bytes())
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for kind, offset, address, bytes_in_file in self._segments():
            if kind == PT_LOAD:
                self._memory[address : address + bytes_in_file] = self._file[
                    offset : offset + bytes_in_file
                ]
        self.target = ""
        self.kernels: dict[str, Kernel] = {}
        symbols = self._symbols()
        for note in self._metadata():
            self.target = note["amdhsa.target"].split("--")[-1].split(":")[0]
            for entry in note["amdhsa.kernels"]:
                kernel = self._kernel(entry, symbols[entry[".symbol"]])
                self.kernels[kernel.name] = kernel

    def _segments(self):
        (table,) = struct.unpack_from("<Q", self._file, 32)
        entry_bytes, count = struct.unpack_from("<HH", self._file, 54)
        for i in range(count):
            kind, _, offset, address, _, bytes_in_file, _, _ = struct.unpack_from(
                "<IIQQQQQQ", self._file, table + i * entry_bytes
            )
            yield kind, offset, address, bytes_in_file

    def _load_bytes(self) -> int:
        (table,) = struct.unpack_from("<Q", self._file, 32)
        entry_bytes, count = struct.unpack_from("<HH", self._file, 54)
        end = 0
        for i in range(count):
            kind, _, _, address, _, _, in_memory, _ = struct.unpack_from(
                "<IIQQQQQQ", self._file, table + i * entry_bytes
            )
            if kind == PT_LOAD:
                end = max(end, address + in_memory)
        return end + mmap.PAGESIZE  # the decoder reads a little past the last instruction

    def _sections(self):
        (table,) = struct.unpack_from("<Q", self._file, 40)
        entry_bytes, count = struct.unpack_from("<HH", self._file, 58)
        return [
            struct.unpack_from("<IIQQQQIIQQ", self._file, table + i * entry_bytes)
            for i in range(count)
        ]

    def _symbols(self) -> dict[str, int]:
        sections = self._sections()
        symbols = {}
        for _, kind, _, _, offset, size, link, _, _, entry_bytes in sections:
            if kind != 11:  # SHT_DYNSYM
                continue
            names = sections[link][4]
            for at in range(offset, offset + size, entry_bytes):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self._file, at)
                end = self._file.index(b"\0", names + name)
                symbols[self._file[names + name : end].decode()] = value
        return symbols

    def _metadata(self):
        for _, kind, _, _, offset, size, *_ in self._sections():
            at, end = offset, offset + size
            while kind == SHT_NOTE and at < end:
                name_bytes, text_bytes, note = struct.unpack_from("<III", self._file, at)
                text = at + 12 + (name_bytes + 3) // 4 * 4
                if note == NT_AMDGPU_METADATA:
                    yield msgpack.unpackb(self._file[text : text + text_bytes])
                at = text + (text_bytes + 3) // 4 * 4

    def _kernel(self, entry: dict, descriptor: int) -> Kernel:
        group, private, kernarg = struct.unpack_from("<III", self._memory, descriptor)
        (code,) = struct.unpack_from("<q", self._memory, descriptor + 16)
        (rsrc2,) = struct.unpack_from("<I", self._memory, descriptor + 52)
        properties, preload = struct.unpack_from("<HH", self._memory, descriptor + 56)
        if preload:
            raise ValueError(f"{entry['.name']}: preloaded kernel arguments are not supported here")
        return Kernel(
            name=entry[".name"],
            entry=self._base + descriptor + code,
            group_segment_bytes=group,
            private_segment_bytes=private,
            kernarg_bytes=max(kernarg, entry[".kernarg_segment_size"]),
            rsrc2=rsrc2,
            properties=properties,
            wavefront_size=entry[".wavefront_size"],
            vgprs=entry[".vgpr_count"],
            sgprs=entry[".sgpr_count"],
            vgpr_spills=entry[".vgpr_spill_count"],
            arguments=[
                Argument(a[".offset"], a[".size"], a[".value_kind"]) for a in entry.get(".args", [])
            ],
        )
