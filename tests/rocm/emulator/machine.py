"""Runs kernels of code objects, one instruction of one wave at a time.

What an instruction does is the emulator's part (tinygrad's test/mockgpu/amd/emu.py, given by path).
This file is what surrounds it: registers as the kernel descriptor asks for them, the kernel
argument segment, work-groups and their LDS, waves and barriers, and the order in which waves run.
"""

import ctypes
import random
import sys
from dataclasses import dataclass

import emulator_fixes
from code_object import CodeObject, Kernel
from memory import POISON, GuardedBytes

# How the waves of a work-group take turns between barriers. A right kernel gives the same bits in
# each of them.
FORWARD = "forward"  # each wave to its next barrier, the first one first
REVERSE = "reverse"  # the last one first
SHUFFLED = "shuffled"  # a random wave for a random few instructions
ORDERS = (FORWARD, REVERSE, SHUFFLED)

LDS_LIMIT_BYTES = 64 * 1024
SCALAR_REGISTERS = 106  # and then VCC and others that instructions name
MAX_INSTRUCTIONS_PER_WAVE = 5_000_000


@dataclass
class Dim3:
    x: int = 1
    y: int = 1
    z: int = 1


class Emulator:
    """tinygrad's instruction emulator, imported from a checkout at `path`."""

    def __init__(self, path: str):
        sys.path.insert(0, path)
        from test.mockgpu.amd import emu  # pylint: disable=import-outside-toplevel

        emulator_fixes.apply_all(emu)
        self.emu = emu
        self.everything = emu.Buffer(
            "CPU", 1 << 40, emu.dtypes.uint32, options=emu.BufferSpec(external_ptr=0)
        ).ensure_allocated()

    @staticmethod
    def architecture(target: str) -> str:
        family = {"gfx90a": "cdna", "gfx942": "cdna", "gfx1100": "rdna3"}
        if target not in family:
            raise ValueError(f"{target}: not one of {', '.join(family)}")
        return family[target]


class _Wave:
    def __init__(self, state, scratch: GuardedBytes | None, buffers):
        self.state, self.scratch, self.buffers = state, scratch, buffers
        self.ended = False
        self.instructions = 0


class Machine:
    """One device: code objects of one architecture, and counts of what ran."""

    def __init__(self, emulator: Emulator, paths: list[str], order: str = FORWARD, seed: int = 1):
        self._emu = emulator.emu
        self._memory = emulator.everything
        self._objects = [CodeObject(path) for path in paths]
        self.kernels = {name: k for o in self._objects for name, k in o.kernels.items()}
        targets = {o.target for o in self._objects}
        if len(targets) != 1:
            raise ValueError(f"code objects of one architecture, not of {sorted(targets)}")
        self.target = targets.pop()
        self._arch = Emulator.architecture(self.target)
        self._decoded: dict[int, tuple] = {}
        self.order = order
        self._random = random.Random(seed)
        self.instructions = 0  # executed by waves, all launches
        self.launched: list[str] = []  # mangled names
        self.trace = False  # prints each instruction before it runs

    # Runs the whole grid before it returns. `arguments` points to pointers to the values of the
    # kernel's own parameters, in order, as hipLaunchKernel takes them.
    def launch(self, name: str, grid: Dim3, block: Dim3, dynamic_lds_bytes: int, arguments: int):
        kernel = self.kernels.get(name)
        if kernel is None:
            raise KeyError(f"{name}: no such kernel among the {len(self.kernels)} of {self.target}")
        self.launched.append(name)
        lds_bytes = kernel.group_segment_bytes + dynamic_lds_bytes
        if lds_bytes > LDS_LIMIT_BYTES:
            raise ValueError(
                f"{name}: {lds_bytes} bytes of LDS; a work-group has {LDS_LIMIT_BYTES}"
            )
        kernarg = self._kernarg(kernel, grid, block, dynamic_lds_bytes, arguments)
        packet = self._dispatch_packet(kernel, grid, block, lds_bytes, kernarg.address)
        lds = GuardedBytes(max(lds_bytes, 4), alignment=4)
        with self._emu._MXCSRContext():
            for z in range(grid.z):
                for y in range(grid.y):
                    for x in range(grid.x):
                        ctypes.memset(lds.address, POISON, max(lds_bytes, 4))
                        self._run_group(
                            kernel, Dim3(x, y, z), block, lds, kernarg.address, packet.address
                        )

    def _kernarg(self, kernel: Kernel, grid, block, dynamic_lds_bytes, arguments) -> GuardedBytes:
        segment = GuardedBytes(kernel.kernarg_bytes)
        ctypes.memset(segment.address, 0, segment.size)
        hidden = {
            "hidden_block_count_x": grid.x,
            "hidden_block_count_y": grid.y,
            "hidden_block_count_z": grid.z,
            "hidden_group_size_x": block.x,
            "hidden_group_size_y": block.y,
            "hidden_group_size_z": block.z,
            "hidden_grid_dims": 3 if grid.z * block.z > 1 else 2 if grid.y * block.y > 1 else 1,
            "hidden_dynamic_lds_size": dynamic_lds_bytes,
        }
        values = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
        own = 0
        for argument in kernel.arguments:
            at = segment.address + argument.offset
            if not argument.kind.startswith("hidden_"):
                ctypes.memmove(at, values[own], argument.size)
                own += 1
            elif argument.kind in hidden:
                value = hidden[argument.kind].to_bytes(argument.size, "little")
                ctypes.memmove(at, value, argument.size)
        return segment

    @staticmethod
    def _dispatch_packet(kernel: Kernel, grid, block, lds_bytes, kernarg) -> GuardedBytes:
        packet = GuardedBytes(64)
        ctypes.memset(packet.address, 0, 64)
        ctypes.memmove(
            packet.address,
            b"".join(
                value.to_bytes(size, "little")
                for value, size in [
                    (2, 2),  # header: kernel dispatch
                    (3, 2),  # dimensions
                    (block.x, 2),
                    (block.y, 2),
                    (block.z, 2),
                    (0, 2),
                    (grid.x * block.x, 4),
                    (grid.y * block.y, 4),
                    (grid.z * block.z, 4),
                    (kernel.private_segment_bytes, 4),
                    (lds_bytes, 4),
                    (0, 8),  # kernel object
                    (kernarg, 8),
                ]
            ),
            48,
        )
        return packet

    # One wave, as the kernel descriptor asks: user registers, then work-group ids, then work-item
    # ids packed into v0 (10 bits each). All other registers are poisoned.
    def _wave(
        self, kernel: Kernel, group, block, first: int, lds, kernarg: int, packet: int
    ) -> _Wave:
        emu, width = self._emu, kernel.wavefront_size
        threads = block.x * block.y * block.z
        state = emu.WaveState(min(width, threads - first), width)
        state.pc = kernel.entry
        for register in range(SCALAR_REGISTERS):
            state._write_sgpr(register, 0xFFFFFFFF)
        for registers in (state.vgpr_buf, state.accvgpr_buf):
            ctypes.memset(registers._buf.va_addr, POISON, 4 * 256 * width)
        scratch = None
        if kernel.private_segment_bytes:
            scratch = GuardedBytes(kernel.private_segment_bytes * width)
        scalar = 0

        def put(value: int, registers: int):
            nonlocal scalar
            for i in range(registers):
                state._write_sgpr(scalar, value >> (32 * i))
                scalar += 1

        properties = kernel.properties
        scratch_address = scratch.address if scratch else 0
        if properties & 1:
            put(self._scratch_resource(scratch_address, kernel), 4)
        for bit, value, registers in [
            (1, packet, 2),
            (2, 0, 2),
            (3, kernarg, 2),
            (4, len(self.launched), 2),
            (5, 0, 2),
            (6, kernel.private_segment_bytes, 1),
        ]:
            if properties & (1 << bit):
                put(value, registers)
        user = (kernel.rsrc2 >> 1) & 31
        if scalar > user:
            raise ValueError(f"{kernel.name}: {scalar} user registers, the descriptor says {user}")
        scalar = user
        for bit, value in [(7, group.x), (8, group.y), (9, group.z)]:
            if kernel.rsrc2 & (1 << bit):
                put(value, 1)
        if kernel.rsrc2 & 1 and properties & 1:
            put(0, 1)  # this wave's offset into the scratch of all: each wave has its own here
        state._write_sgpr(emu.SCRATCH_STRIDE_IDX, kernel.private_segment_bytes)
        for lane in range(width):
            thread = first + lane
            x, y, z = thread % block.x, thread // block.x % block.y, thread // (block.x * block.y)
            state._write_vgpr(0, lane, z << 20 | y << 10 | x)
        buffers = [
            ctypes.c_uint64(address)
            for address in (
                state.sgpr_buf._buf.va_addr,
                state.vgpr_buf._buf.va_addr,
                self._memory._buf.va_addr,
                lds.address,
                scratch_address,
                state.accvgpr_buf._buf.va_addr,
            )
        ]
        return _Wave(state, scratch, buffers)

    @staticmethod
    def _scratch_resource(address: int, kernel: Kernel) -> int:
        records = kernel.private_segment_bytes * kernel.wavefront_size
        return (
            address | records << 64 | 1 << (96 + 23)
        )  # bit 23 of the last word: add the lane's id

    def _run_group(self, kernel: Kernel, group, block, lds, kernarg: int, packet: int):
        threads = block.x * block.y * block.z
        waves = [
            self._wave(kernel, group, block, first, lds, kernarg, packet)
            for first in range(0, threads, kernel.wavefront_size)
        ]
        while running := [wave for wave in waves if not wave.ended]:
            if self.order == SHUFFLED:
                self._to_barrier_shuffled(kernel, running)
                continue
            for wave in running if self.order == FORWARD else reversed(running):
                self._step(kernel, wave, MAX_INSTRUCTIONS_PER_WAVE)
        self.instructions += sum(wave.instructions for wave in waves)

    def _to_barrier_shuffled(self, kernel: Kernel, waves: list[_Wave]):
        moving = list(waves)
        while moving:
            wave = self._random.choice(moving)
            if self._step(kernel, wave, self._random.randint(1, 40)):
                moving.remove(wave)

    # Runs a wave for `budget` instructions, or up to and over its next barrier, or to its end; true
    # for the latter two.
    def _step(self, kernel: Kernel, wave: _Wave, budget: int) -> bool:
        state, buffers, end = wave.state, wave.buffers, self._emu.ENDPGM_PC
        decoded = self._decoded
        registers = state._sgpr_mv
        low, high = self._emu.PC_LO_IDX, self._emu.PC_HI_IDX
        for done in range(budget):
            pc = registers[low] | registers[high] << 32
            if pc == end:
                wave.ended = True
                wave.instructions += done
                return True
            if pc not in decoded:
                decoded[pc] = self._decode(kernel, pc)
            function, used, is_barrier, instruction = decoded[pc]
            if self.trace:
                print(f"{kernel.name}+{pc - kernel.entry:#x} {instruction!r}", flush=True)
            function(*[buffers[i] for i in used])
            if is_barrier:
                wave.instructions += done + 1
                return True
        wave.instructions += budget
        if wave.instructions > MAX_INSTRUCTIONS_PER_WAVE:
            raise RuntimeError(
                f"{kernel.name}: a wave ran {wave.instructions} instructions; it hangs"
            )
        return False

    def _decode(self, kernel: Kernel, pc: int) -> tuple:
        emu = self._emu
        if emulator_fixes.is_about_caches(pc, self.target):
            return emulator_fixes.skip_eight_bytes, (0,), False, "about caches"
        emulator_fixes.rewrite(pc, self.target)
        emu.current_architecture = self._arch
        (program, runtime), instruction = emu._decode_at(pc, self._arch)
        is_barrier = getattr(instruction, "op", None) in emu._BARRIER_OPS
        return runtime.fxn, program.arg.globals, is_barrier, instruction
