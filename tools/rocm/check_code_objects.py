#!/usr/bin/env python3
"""Checks AMD code objects without an AMD GPU: what registers, memory and instructions kernels take.

    check_code_objects.py --readelf llvm-readelf --objdump llvm-objdump FILE.gfx90a.hsaco...

Prints a line a kernel, and fails, naming each kernel and rule, if

  - a code object's wavefronts do not have the architecture's width;
  - a kernel keeps anything in private memory ("scratch"), spilled registers for one, which costs
    trips to memory, unless ALLOWED_SCRATCH names it. Scalar registers spill into lanes of a vector
    register; that is shown, and is no fault;
  - a kernel of MATRIX_KERNELS is in no code object of the architecture with its matrix instructions,
    or a variant for its matrix unit has none;
  - a kernel whose body is compiled away, one for another lane width or matrix unit, does not trap: a
    launch of it would end as if it had done its work.

Kernels whose body is compiled away are counted alone.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# Of each architecture: lanes of a wavefront, and what its matrix instructions begin with.
ARCHITECTURES = {
    "gfx90a": (64, "v_mfma_"),
    "gfx942": (64, "v_mfma_"),
    "gfx1100": (32, "v_wmma_"),
}
# encore::gpu::MatrixUnit as it stands in template arguments.
MATRIX_UNITS = {"v_mfma_": "(encore::gpu::MatrixUnit)2", "v_wmma_": "(encore::gpu::MatrixUnit)3"}
# Functions whose work is matrix products.
MATRIX_KERNELS = ("linear_tiles_kernel", "attention_prefill_matrix", "decode_matrix_kernel")
# Functions that may use private memory, and why.
ALLOWED_SCRATCH: dict[str, str] = {}


@dataclass
class Kernel:
    symbol: str
    values: dict[str, int] = field(default_factory=dict)
    num_instructions: int = 0
    num_matrix: int = 0
    num_traps: int = 0
    name: str = ""  # demangled, without namespaces and parameters

    def is_empty(self) -> bool:
        return self.values["vgpr_count"] == 0 and self.num_matrix == 0

    def function(self) -> str:
        return self.name.split("<")[0].split("::")[-1]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read_notes(readelf: str, path: Path) -> list[Kernel]:
    """The kernels of a code object, from its metadata."""
    kernels: list[Kernel] = []
    values: dict[str, int] = {}
    for line in run(readelf, "--notes", str(path)).splitlines():
        if line.startswith("  - "):
            values = {}
        match = re.match(r"^  [- ] \.(\w+): +(\S+)$", line)
        if match is None:
            continue
        key, value = match.groups()
        if value.isdigit():
            values[key] = int(value)
        elif key == "name":
            kernels.append(Kernel(value, values))
    return kernels


def count_instructions(objdump: str, path: Path, prefix: str, kernels: list[Kernel]) -> None:
    by_symbol = {kernel.symbol: kernel for kernel in kernels}
    current: Kernel | None = None
    for line in run(objdump, "-d", "--no-show-raw-insn", str(path)).splitlines():
        label = re.match(r"^[0-9a-f]+ <(\S+)>:$", line)
        if label is not None:
            current = by_symbol.get(label.group(1))
        elif current is not None and line.startswith("\t"):
            current.num_instructions += 1
            current.num_matrix += line.lstrip().startswith(prefix)
            current.num_traps += line.lstrip().startswith("s_trap")


def demangle(kernels: list[Kernel]) -> None:
    names = run("c++filt", *(kernel.symbol for kernel in kernels)).splitlines()
    for kernel, name in zip(kernels, names, strict=True):
        name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
        kernel.name = re.sub(r"\((?!encore::gpu::MatrixUnit\)).*$", "", name).replace(
            "encore::gpu::", "", 1)


def check(path: Path, readelf: str, objdump: str, matrix: Counter) -> tuple[list[str], list[str]]:
    """The table's lines of one code object, and what is wrong with it.

    Adds to `matrix`, by architecture and function, how many matrix instructions there are.
    """
    architecture = path.suffixes[-2].removeprefix(".")
    lanes, prefix = ARCHITECTURES[architecture]
    kernels = read_notes(readelf, path)
    if not kernels:
        return [], []  # host code alone
    count_instructions(objdump, path, prefix, kernels)
    demangle(kernels)
    lines, wrong = [], []
    for kernel in kernels:
        value = kernel.values
        where = f"{path.name}: {kernel.name}"
        if value["wavefront_size"] != lanes:
            wrong.append(f"{where}: wavefronts of {value['wavefront_size']} lanes, not {lanes}")
        if kernel.is_empty():
            if kernel.num_traps == 0:
                wrong.append(f"{where}: does nothing, and does not trap")
            continue
        scratch = value["private_segment_fixed_size"]
        if (scratch or value["vgpr_spill_count"]) and kernel.function() not in ALLOWED_SCRATCH:
            wrong.append(f"{where}: {scratch} bytes of scratch, {value['vgpr_spill_count']} vector "
                         "registers spilled")
        matrix[architecture, kernel.function()] += kernel.num_matrix
        if MATRIX_UNITS[prefix] in kernel.name and kernel.num_matrix == 0:
            wrong.append(f"{where}: no {prefix}*")
        lines.append(
            f"{architecture:8} {value['vgpr_count']:5} {value.get('agpr_count', 0):5} "
            f"{value['sgpr_count']:5} {value['group_segment_fixed_size']:6} {scratch:7} "
            f"{value['vgpr_spill_count']:6} {value['sgpr_spill_count']:6} "
            f"{value['wavefront_size']:5} {kernel.num_matrix:6} {kernel.num_instructions:7}  "
            f"{kernel.name}")
    num_empty = sum(kernel.is_empty() for kernel in kernels)
    if num_empty:
        lines.append(f"{architecture:8} {num_empty} of {path.stem} are for other devices: they trap")
    return lines, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readelf", required=True)
    parser.add_argument("--objdump", required=True)
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    print(f"{'':8} {'VGPRs':>5} {'AGPRs':>5} {'SGPRs':>5} {'LDS':>6} {'scratch':>7} {'vspill':>6} "
          f"{'sspill':>6} {'lanes':>5} {'matrix':>6} {'instr.':>7}  kernel")
    wrong: list[str] = []
    matrix: Counter = Counter()
    for path in sorted(arguments.files, key=lambda path: (path.suffixes[-2], path.name)):
        lines, found = check(path, arguments.readelf, arguments.objdump, matrix)
        for line in lines:
            print(line)
        wrong += found
    for architecture in sorted({path.suffixes[-2].removeprefix(".") for path in arguments.files}):
        for function in MATRIX_KERNELS:
            if matrix[architecture, function] == 0:
                wrong.append(f"{architecture}: no {function} with {ARCHITECTURES[architecture][1]}*")
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{len(arguments.files)} code objects, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
