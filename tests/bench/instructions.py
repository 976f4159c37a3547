#!/usr/bin/env python3
"""Instructions that the hot kernels take for a row (examples/bench_kernels), against those in instructions.json: a
regression check that does not depend on how busy the machine is. Needs valgrind; without it nothing is checked, and it
says so.

A kernel runs under callgrind with one round and with three; half of the difference is a round, without the start of the
program and without what is made before. Threads, the library of Parquet and zstd are in it.

  instructions.py           exit code 1 where a kernel takes more than it should; also says where it takes much less
  instructions.py --renew   writes what was counted to instructions.json
  instructions.py --record  records the rows events anew (recorded/), from a private MySQL; then --renew

Environment: BENCH_PROFILE, BENCH_KERNELS_BIN as for run.py.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernels

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "instructions.json"
RECORDED = HERE / "recorded"
# CPUs differ in the code that libraries choose for them, hash maps in their seeds: below this nothing is said.
TOLERANCE = 0.10
ROWS = 16_384
COMMITS = 20


def recorded(name):
    return RECORDED / f"{name}.binlog", RECORDED / f"{name}.json"


# The words of each kernel without the rounds, and what is counted.
KERNELS = {
    "decode sysbench": ("decode", *recorded("sysbench")),
    "decode lineitem": ("decode", *recorded("lineitem")),
    "decode updates": ("decode", *recorded("updates")),
    "flush ascending": ("flush", ROWS, "ascending"),
    "flush random": ("flush", ROWS, "random"),
    "bulk": ("bulk", ROWS),
    "scan": ("scan", ROWS),
    "compact": ("compact", ROWS),
    "commit": ("commit", COMMITS),
}


def count(example, folder, rounds, words):
    """Instructions of a whole process, and the rows of a round."""
    out = folder / "-".join(Path(str(word)).name for word in (*words, rounds))
    kernel, *rest = map(str, words)
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", example, kernel, str(rounds), *rest]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"instructions: {' '.join(map(str, command))} failed:\n{done.stderr}")
    totals = re.search(r"^totals: (\d+)", out.read_text(), re.MULTILINE)
    return int(totals[1]), json.loads(done.stdout.splitlines()[-1])["rows"]


def measure(example, folder, words):
    """Instructions of a row."""
    (one, rows), (three, _) = (count(example, folder, rounds, words) for rounds in (1, 3))
    return (three - one) / 2 / rows


def record():
    """A few rows of each kind, as a server logs them."""
    import tables
    from server import Server

    RECORDED.mkdir(exist_ok=True)
    server = Server()
    try:
        server.create_tables()
        for name, table in [("sysbench", tables.sysbench()), ("lineitem", tables.lineitem())]:
            server.create(name, table)
            kernels.record(server, RECORDED, name, table, lambda: server.fill(name, table, 500))
        server.create("updates", tables.sysbench())
        server.fill("updates", tables.sysbench(), 1000, log=False)
        kernels.record(server, RECORDED, "updates", tables.sysbench(), lambda: server.update(150, 1000))
    finally:
        server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"kernels to count: {', '.join(KERNELS)} (default: all)")
    parser.add_argument("--renew", action="store_true", help="write what was counted to instructions.json")
    parser.add_argument("--record", action="store_true", help="record the rows events anew, then --renew")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(KERNELS):
        parser.error(f"no such kernel: {', '.join(unknown)}")
    if not shutil.which("valgrind"):
        print("instructions: left out, valgrind is not installed")
        return
    if arguments.record:
        record()
    renew = arguments.renew or arguments.record
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    example, began = kernels.build(), time.monotonic()
    slower, faster = [], []
    names = arguments.only or list(KERNELS)
    # Side by side, since time does not count.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = pool.map(lambda name: measure(example, Path(folder), KERNELS[name]), names)
        for name, counted in zip(names, counts):
            before = expected.get(name)
            change = counted / before - 1 if before else 0
            print(f"  {name}: {counted:,.0f} instructions a {'commit' if name == 'commit' else 'row'}"
                  + (f", {change:+.1%}" if before else ", not known before"), flush=True)
            if not before or change > TOLERANCE:
                slower.append(name)
            elif change < -TOLERANCE:
                faster.append(name)
            if renew:
                expected[name] = round(counted)
    print(f"  {time.monotonic() - began:.0f} s")
    if renew:
        EXPECTED.write_text(json.dumps(expected, indent=2) + "\n")
        return
    if faster:
        print(f"instructions: {', '.join(faster)}: fewer than in {EXPECTED.name} by more than {TOLERANCE:.0%}: renew it (--renew)")
    if slower:
        print(f"instructions: {', '.join(slower)}: more than in {EXPECTED.name} by more than {TOLERANCE:.0%}. Find out why "
              "(docs/performance.md); where it is worth it, renew the file (--renew)")
        sys.exit(1)


if __name__ == "__main__":
    main()
