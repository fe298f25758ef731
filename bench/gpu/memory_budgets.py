#!/usr/bin/env python3
"""Starts `encore graphs` at every budget from 0.80 to 0.99 while another process holds GPU memory.

  bench/gpu/memory_budgets.py ENCORE CONFIG [--hold SHARE]

Each start must either be ready, replay its graphs, and account for what the device says it took
within 2 %; or end with status 2 and name a budget that would do, which is then tried. Nothing may
fail once it was ready. Needs torch, for the other process. Prints a row for each budget; exits
with 1 if any was wrong.
"""

import argparse
import json
import re
import subprocess
import sys

BUDGETS = [round(0.80 + 0.01 * i, 2) for i in range(20)]
WORST_DIFFERENCE = 2.0  # percent between the ledger and the device
HOLDER = """
import sys, torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(int(total * float(sys.argv[1])), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print(held.numel(), flush=True)
sys.stdin.read()
"""


def start(args, budget):
    """(exit status, report or None, standard error) of one start."""
    done = subprocess.run([args.encore, "graphs", args.config, "--json", "--set",
                           f"kv_cache.memory_fraction={budget}"],
                          capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def ready_row(report):
    """What a ready start took, and what is wrong with it."""
    memory = report["memory"]
    sum_bytes, used = memory["sum_bytes"], memory["device_used_bytes"]
    difference = 100.0 * abs(sum_bytes - used) / used
    wrong = "" if difference <= WORST_DIFFERENCE else "the ledger is off"
    return f"ready, KV {memory['kv_bytes'] / 1e9:.2f} GB, sum {sum_bytes / 1e9:.2f} GB, " \
           f"{difference:.2f} % off", wrong


def refused_row(args, error):
    """What a start that was refused says, and whether the budget that it names would do."""
    named = re.search(r"raise kv_cache\.memory_fraction to ([0-9.]+)", error)
    if named is None:
        if "not even all of the memory is enough" in error:
            return "refused, no budget would do", ""
        return error.strip().splitlines()[-1] if error.strip() else "no message", "no value to try"
    status, _, second = start(args, named[1])
    said = f"refused, names {named[1]}"
    if status == 0:
        return said + ", which is ready", ""
    return said, f"which ends with {status}: {second.strip().splitlines()[-1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encore")
    parser.add_argument("config")
    parser.add_argument("--hold", type=float, default=0.8,
                        help="share of the device's memory that the other process holds")
    args = parser.parse_args()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(args.hold)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    held = holder.stdout.readline()
    if not held:
        sys.exit("error: the other process could not take its memory")
    print(f"another process holds {int(held) / 1e9:.1f} GB")
    faults = 0
    for budget in BUDGETS:
        status, report, error = start(args, budget)
        if status == 0:
            said, wrong = ready_row(report)
        elif status == 2:
            said, wrong = refused_row(args, error)
        else:
            said, wrong = error.strip()[-200:], f"exit status {status}"
        faults += bool(wrong)
        print(f"{budget:.2f}  {said}{'  WRONG: ' + wrong if wrong else ''}", flush=True)
    holder.communicate()
    print(f"{len(BUDGETS)} budgets, {faults} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
