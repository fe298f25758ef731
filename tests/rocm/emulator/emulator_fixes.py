"""What the emulator lacks, or has wrong, as far as our kernels meet it; put right from outside.

Written for the commit that docs/rocm-emulator.md names. Each function says what the hardware does.
"""

import ctypes

_FLAT_ENCODING = 0b110111
_MFMA_ENCODING = 0b110100111  # of the upper 9 bits
# Instructions about caches and the order of memory, by target: bits 18 to 31 of their first word.
_CACHE_INSTRUCTIONS = {
    # buffer_wbinvl1, buffer_wbinvl1_vol, buffer_wbl2, buffer_invl2
    "gfx90a": (0xE0F80000, 0xE0FC0000, 0xE0A00000, 0xE0A40000),
    "gfx942": (0xE0A00000, 0xE0A40000),  # buffer_wbl2, buffer_inv
    "gfx1100": (0xE0AC0000, 0xE0B00000),  # buffer_gl0_inv, buffer_gl1_inv
}
# The bf16 products of gfx90a (those of two k a register) by the numbers that gfx942 gave them:
# 16x16x16, 32x32x8.
_MFMA_NUMBERS = {0x67: 0x61, 0x66: 0x60}


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


def return_from_atomics(emu):
    """An atomic gives what memory held before if its bit glc says so; CDNA 3 calls the bit sc0."""
    attribute = emu._iattr

    def read(instruction, name, default=0):
        if name == "glc" and not hasattr(instruction, "glc"):
            name = "sc0"
        return attribute(instruction, name, default)

    emu._iattr = read


def share_lanes_of_rows(emu):
    """DPP controls: any lane of a row shared with the row (row_share of RDNA, row_newbcast of
    CDNA); lanes exchanged by xor (row_xmask of RDNA); a row's last lane shared with the next row,
    lane 31 with the upper half (row_bcast of CDNA)."""
    control, constant, integer = emu._dpp16_ctrl, emu.UOp.const, emu.dtypes.int

    def dpp16(lane, dpp, row_mask, bank_mask, wave_size):
        if not 0x150 <= dpp <= 0x16F and dpp not in (0x142, 0x143):
            return control(lane, dpp, row_mask, bank_mask, wave_size)
        rotated = 0x121  # for whether row and bank take part
        _, enabled, valid = control(lane, rotated, row_mask, bank_mask, wave_size)
        number = lane.cast(integer)
        row = number & constant(~15, integer)
        if dpp >= 0x160:
            source = number ^ constant(dpp & 15, integer)
        elif dpp >= 0x150:
            source = row + constant(dpp & 15, integer)
        elif dpp == 0x142:
            source, valid = row - constant(1, integer), row >= constant(16, integer)
        else:
            source, valid = constant(31, integer), row >= constant(32, integer)
        return source, enabled, valid

    emu._dpp16_ctrl = dpp16


def pass_literals_to_lane_operations(emu):
    """The lane numbers of v_permlane16 and v_permlanex16 (RDNA) may be a literal."""
    compile_lanes, read_source = emu._Ctx.compile_lane_pcode, emu._Ctx.rsrc_dyn
    known = None

    def compile_with_literal(context, op, instruction):
        nonlocal known
        known = context.optional_field(instruction, "literal")
        try:
            return compile_lanes(context, op, instruction)
        finally:
            known = None

    def read(context, offset, lane, bits=32, literal=None, *rest, **named):
        literal = known if literal is None else literal
        return read_source(context, offset, lane, bits, literal, *rest, **named)

    emu._Ctx.compile_lane_pcode, emu._Ctx.rsrc_dyn = compile_with_literal, read


def use_whole_registers(emu):
    """In the short encodings of 16-bit operations, RDNA 3 takes registers from v128 on for the
    upper halves of the ones before; CDNA has no such thing, and the emulator takes it for RDNA."""
    read_source, whole = emu._Ctx.rsrc_dyn, 17  # as 16 bits, for all but the question of halves

    def read(context, offset, lane, bits=32, *rest, **named):
        return read_source(context, offset, lane, 16 if bits == whole else bits, *rest, **named)

    def compile_whole(handler):
        def compile_instruction(instruction, context):
            if "cdna" in type(instruction).__module__:
                bits = instruction.canonical_op_bits
                bits.update({name: whole for name, width in bits.items() if width == 16})
            return handler(instruction, context)

        return compile_instruction

    emu._Ctx.rsrc_dyn = read
    for kind, handler in list(emu._INST_HANDLERS.items()):
        if handler in (emu._compile_vop12, emu._compile_vopc):
            emu._INST_HANDLERS[kind] = compile_whole(handler)


def store_accumulators_to_lds(emu):
    """An LDS store (CDNA) takes its data from accumulation registers if its bit acc says so; the
    emulator heeds that in loads alone."""
    handler = emu._compile_mem_op
    address_register = None

    class Context(emu._Ctx):
        __slots__ = ()

        def rvgpr_dyn(self, reg, lane, valid=None):
            if reg is address_register:
                return super().rvgpr_dyn(reg, lane, valid)
            return self.raccvgpr_dyn(reg, lane, valid)

    def compile_memory(instruction, context):
        nonlocal address_register
        if type(instruction).__name__ == "DS" and getattr(instruction, "acc", 0):
            address_register = context.inst_field(type(instruction).addr)
            context.__class__ = Context
        return handler(instruction, context)

    for kind, registered in list(emu._INST_HANDLERS.items()):
        if registered is handler:
            emu._INST_HANDLERS[kind] = compile_memory


def rewrite(pc: int, target: str):
    """Changes an instruction of `target` in memory to what the emulator takes for it: it knows
    CDNA as of gfx942, and takes bits 48 to 54 of a flat (not global) instruction, which has no
    scalar base, for one unless they say "none"."""
    word = ctypes.c_uint32.from_address(pc)
    if target == "gfx1100":
        return
    if word.value >> 26 == _FLAT_ENCODING and word.value >> 14 & 3 == 0:
        ctypes.c_uint32.from_address(pc + 4).value |= 0x7F << 16
    number = word.value >> 16 & 0x7F
    if target == "gfx90a" and word.value >> 23 == _MFMA_ENCODING and number in _MFMA_NUMBERS:
        word.value ^= (number ^ _MFMA_NUMBERS[number]) << 16


def is_about_caches(pc: int, target: str) -> bool:
    """Whether the emulator, which has no caches, does not know this instruction and need not."""
    return ctypes.c_uint32.from_address(pc).value & 0xFFFC0000 in _CACHE_INSTRUCTIONS[target]


def skip_eight_bytes(scalar_registers):
    """Executes an instruction that does nothing; the program counter is at index 256."""
    ctypes.c_uint64.from_address(scalar_registers.value + 4 * 256).value += 8


def apply_all(emu):
    guard_inactive_lanes(emu)
    sign_sdwa_sources(emu)
    return_from_atomics(emu)
    share_lanes_of_rows(emu)
    store_accumulators_to_lds(emu)
    pass_literals_to_lane_operations(emu)
    use_whole_registers(emu)
