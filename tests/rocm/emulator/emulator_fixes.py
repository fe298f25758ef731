"""What the emulator lacks, or has wrong, as far as our kernels meet it; put right from outside.

Written for the commit that docs/rocm-emulator.md names. Each function says what the hardware does.
"""

import ctypes

_FLAT_ENCODING = 0b110111
# buffer_gl0_inv and buffer_gl1_inv of RDNA 3.
_CACHE_INVALIDATIONS = (0xE0AC0000, 0xE0B00000)


def guard_inactive_lanes(emu):
    """A lane that the exec mask turns off touches no memory. The emulator lets it read LDS, and
    read and write back what an LDS store or an atomic addresses, at whatever address it holds."""
    parse, write = emu.parse_pcode, emu._write_val

    def parse_guarded(pcode, sources, *rest):
        if sources is not None and "_lds" in sources and "_active" not in sources:
            wave_size = 64 if emu.current_architecture == "cdna" else 32
            mask = emu._Ctx(0, wave_size).rexec()
            sources = {**sources, "_active": emu._lane_active(mask, sources["laneId"])}
        return parse(pcode, sources, *rest)

    def write_guarded(bits, value, write_word, place, *rest, is_mem=False):
        if not is_mem:
            return write(bits, value, write_word, place, *rest)
        active = rest[0]
        wide = place.dtype.itemsize == 8
        memory = emu._Ctx.vmem if wide else emu._Ctx.lds
        words = emu._split64(value) if bits == 64 else [emu._to_u32(value)]
        stores = []
        for i, word in enumerate(words):
            address = place + emu.UOp.const(4 * i, place.dtype)
            stores += emu._mem_store(memory, address, word, active, 64 if wide else 32, 32)
        return stores

    emu.parse_pcode, emu._write_val = parse_guarded, write_guarded


def sign_sdwa_sources(emu):
    """SDWA instructions (CDNA) may negate their sources and take absolute values; the emulator
    leaves that out. Refuses what else it leaves out: a clamped or scaled result."""
    select, constant = emu._sdwa_select, emu.UOp.const
    compiling, sources_seen = None, 0

    def compile_sdwa(instruction, context):
        nonlocal compiling, sources_seen
        if getattr(instruction, "clmp", 0) or getattr(instruction, "omod", 0):
            raise RuntimeError("SDWA with clamp or output modifier")
        compiling, sources_seen = instruction, 0
        return handler(instruction, context)

    def select_signed(value, *selection):
        nonlocal sources_seen
        bits, number = select(value, *selection), sources_seen % 2
        sources_seen += 1
        sign = 1 << (compiling.canonical_op_bits[f"s{number}"] - 1)
        if getattr(compiling, f"src{number}_abs"):
            bits = bits & constant(sign - 1, bits.dtype)
        if getattr(compiling, f"src{number}_neg"):
            bits = bits ^ constant(sign, bits.dtype)
        return bits

    handler = emu._compile_sdwa
    for kind, registered in list(emu._INST_HANDLERS.items()):
        if registered is handler:
            emu._INST_HANDLERS[kind] = compile_sdwa
    emu._sdwa_select = select_signed


def drop_base_of_flat(pc: int):
    """A flat (not global) instruction has no scalar base, whatever its bits 48 to 54 are; the
    emulator takes them for one unless they say "none". CDNA's encoding."""
    low = ctypes.c_uint32.from_address(pc).value
    if low >> 26 == _FLAT_ENCODING and (low >> 14) & 3 == 0:
        high = ctypes.c_uint32.from_address(pc + 4)
        high.value |= 0x7F << 16


def is_cache_invalidation(pc: int) -> bool:
    """Whether the emulator, which has no caches, does not know this instruction and need not."""
    return ctypes.c_uint32.from_address(pc).value & 0xFFFC0000 in _CACHE_INVALIDATIONS


def skip_eight_bytes(scalar_registers):
    """Executes an instruction that does nothing; the program counter is at index 256."""
    ctypes.c_uint64.from_address(scalar_registers.value + 4 * 256).value += 8
