#!/usr/bin/env python3
"""Runs the kernels of kernels/gpu, as built for AMD, in an instruction-level emulator on the CPU
and compares their numbers with float64 arithmetic.

    python3 -m venv venv && venv/bin/pip install numpy msgpack
    git clone https://github.com/tinygrad/tinygrad   # the commit is in docs/rocm-emulator.md
    cmake --build build/release --target encore_emulated_kernels
    venv/bin/python tests/rocm/emulator/run.py --emulator tinygrad --objects build/release

What runs is the machine code of each architecture (the *.hsaco files that the rocm plugin bundles),
launched by the project's own host code (libencore_emulated_kernels: kernels/gpu's launch functions
and what they call of HIP, launches.cpp). The emulator decodes each instruction and computes what it
does to registers and memory; machine.py is the rest of the device: descriptors, arguments, LDS,
waves, barriers. Checked for every case:

  - the numbers, against float64 arithmetic that shares no code with the kernels;
  - reads and writes past a buffer's end, which end the process; LDS and registers that are read
    before they are written hold NaN;
  - the same bits whatever the order in which the waves of a work-group run between barriers
    (first to last, last to first, a random wave for a random few instructions), which differ where
    a barrier is missing.

Not checked, since the emulator does not model it: wait counts, hazards, caches, denormals (always
flushed), time.

Exits with 0 if every case passed, 1 if not, 2 for a wrong command line.
"""

import argparse
import faulthandler
import glob
import os
import sys
import time

import cases_attention
import cases_dequantize
import cases_linear
import cases_rope
import cases_rows
import cases_sample
from case import Case, Device
from kernel_library import KernelLibrary
from machine import ORDERS, Emulator, Machine

ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
CASES: list[Case] = [
    *cases_attention.CASES,
    *cases_linear.CASES,
    *cases_rows.CASES,
    *cases_rope.CASES,
    *cases_sample.CASES,
    *cases_dequantize.CASES,
]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--emulator", required=True, help="a checkout of tinygrad")
    parser.add_argument("--objects", required=True, help="build tree with *.<architecture>.hsaco")
    parser.add_argument("--library", help="libencore_emulated_kernels.so; found in --objects")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="may be repeated")
    parser.add_argument(
        "--order", action="append", choices=ORDERS, help="of waves; may be repeated"
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--trace", action="store_true", help="print each instruction before it runs"
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    return parser.parse_args()


def find(folder: str, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))


class Table:
    """Rows as they come, in fixed widths or as Markdown."""

    _COLUMNS = (
        ("case", 22),
        ("architecture", 12),
        ("shape", 44),
        ("error", 9),
        ("tolerance", 9),
        ("instructions", 12),
        ("seconds", 7),
        ("result", 0),
    )

    def __init__(self, markdown: bool):
        self._markdown = markdown
        self.row(*[name for name, _ in self._COLUMNS])
        if markdown:
            self.row(*["---"] * len(self._COLUMNS))

    def row(self, *cells: str):
        if self._markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        else:
            print(
                "  ".join(c.ljust(w) for c, (_, w) in zip(cells, self._COLUMNS)).rstrip(),
                flush=True,
            )


# Runs one case in each order of waves. Returns what the table says, and whether it passed.
def run_case(
    case: Case, machine: Machine, library: KernelLibrary, orders
) -> tuple[list[str], bool]:
    start, before, first = time.monotonic(), machine.instructions, None
    verdict, error, tolerance = "pass", 0.0, 0.0
    try:
        for order in orders:
            machine.order = order
            library.use(machine)
            device = Device(library)  # until the outputs have been copied
            result = case.run(device)
            error, tolerance = max(error, result.error), result.tolerance
            outputs = [output.tobytes() for output in result.outputs]
            if not error <= tolerance:
                verdict = f"FAIL: wrong numbers, waves {order}"
                break
            if first is not None and outputs != first:
                verdict = f"FAIL: waves {order} give other bits than {orders[0]}"
                break
            first = outputs
    except RuntimeError as failure:
        verdict = f"FAIL: {str(failure).strip().splitlines()[-1]}"
    cells = [
        case.name,
        machine.target,
        case.shape,
        f"{error:.2e}" if error else "0",
        f"{tolerance:.2e}" if tolerance else "0",
        str(machine.instructions - before),
        f"{time.monotonic() - start:.1f}",
        verdict,
    ]
    return cells, verdict == "pass"


def main() -> int:
    arguments = parse()
    faulthandler.enable()
    libraries = (
        [arguments.library]
        if arguments.library
        else find(arguments.objects, "libencore_emulated_kernels.so")
    )
    if len(libraries) != 1:
        print(
            f"{arguments.objects}: {len(libraries)} libencore_emulated_kernels.so; give --library",
            file=sys.stderr,
        )
        return 2
    emulator, library = Emulator(arguments.emulator), KernelLibrary(libraries[0])
    cases = [case for case in CASES if arguments.only in case.name]
    table, failed, ran = Table(arguments.markdown), 0, 0
    for architecture in arguments.arch or ARCHITECTURES:
        objects = find(arguments.objects, f"*.{architecture}.hsaco")
        if not objects:
            print(f"{arguments.objects}: no *.{architecture}.hsaco", file=sys.stderr)
            return 2
        machine = Machine(emulator, objects)
        machine.trace = arguments.trace
        for case in cases:
            cells, passed = run_case(case, machine, library, arguments.order or ORDERS)
            table.row(*cells)
            ran, failed = ran + 1, failed + (not passed)
    print(f"{ran} runs, {failed} failed", file=sys.stderr)
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
