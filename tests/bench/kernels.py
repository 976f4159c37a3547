"""The hot parts of the program alone: rows events that a server wrote, from memory to columns and to Parquet in memory, on
one core (examples/bench_kernels).

Environment:
  BENCH_KERNEL_ROWS   rows that are recorded (500000)
  BENCH_KERNELS_BIN   the example bench_kernels, built already
"""

import json
import os
import re
import statistics
import subprocess
from pathlib import Path

import cargo
import tables
from server import DATABASE

# Rounds, and millions of rows a CPU second that are the goal. CPU time is counted in hundredths of a second: a mean of many.
KERNELS = {"decode": (20, 1.5), "encode": (5, 0.8)}


def build():
    given = os.environ.get("BENCH_KERNELS_BIN")
    if given:
        return Path(given).resolve()
    return cargo.build("--workspace", "--bins", "--example", "bench_kernels") / "examples" / "bench_kernels"


def run(example, *words):
    """What the example told."""
    done = subprocess.run([example, *map(str, words)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"bench: bench_kernels {' '.join(map(str, words))} failed; it says why above")
    return json.loads(done.stdout)


def definition(name, table):
    """The table as the example wants it told."""
    kind = lambda text: text.split(" DEFAULT ")[0]
    key = re.match(r"PRIMARY KEY \(([^)]*)\)", table.key)[1]
    return {"name": [DATABASE, name], "columns": [[column, kind(text)] for column, (text, _) in table.columns.items()],
            "key": key.split(", ")}


def record(server, folder, name, table, write):
    """What `write` writes to the log, as a file of the log, with the table's definition beside it; their paths."""
    first = server.new_log_file()
    write()
    last = server.position()[0]
    if first != last:
        raise SystemExit(f"bench: the recording of {name} is longer than a file of the log: take fewer rows")
    subprocess.run(server.raw_log_command(first, folder), check=True)
    log, about = folder / f"{name}.binlog", folder / f"{name}.json"
    (folder / first).rename(log)
    log.chmod(0o644)
    about.write_text(json.dumps(definition(name, table)) + "\n")
    return log, about


def take(bench):
    example, rows = build(), int(os.environ.get("BENCH_KERNEL_ROWS", "500000"))
    folder = bench.folder / "kernels"
    folder.mkdir()
    for name, (table, *_) in tables.SNAPSHOTS.items():
        count = int(rows * table.share)
        bench.server.create(name, table)
        recorded = record(bench.server, folder, name, table, lambda: bench.server.fill(name, table, count))
        bench.server.drop(name)
        for kernel, (rounds, goal) in KERNELS.items():
            told = run(example, kernel, rounds, *recorded)
            if told["rows"] != count:
                raise SystemExit(f"bench: {told['rows']} rows of {name} came out of {count}")
            seconds = max(statistics.mean(told["cpu_seconds"]), 1e-6)
            what = "decode" if kernel == "decode" else "decode, sort and Parquet"
            goal = goal if name == "sysbench" else None
            bench.report.add(f"kernels: {name}, {what}, one core", count / seconds / 1e6, "M rows/s", at_least=goal)
            print(f"  {name}, {kernel}: CPU {seconds:.3f} s, {count / seconds / 1e6:.2f} M rows/s", flush=True)
        recorded[0].unlink()
