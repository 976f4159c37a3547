#!/usr/bin/env python3
"""The engine of the lake tables against Java Paimon and pypaimon-rust, in turn on the same machine. Needs no server.

Environment:
  ROWS            rows of the large table (2000000; 10000000 for the figures of docs/benchmarks.md)
  BENCH_ROUNDS    runs of each side (3)
  COMMITS         small commits (2000)
  BUCKET_MB       size of the one bucket whose compaction's memory is measured (1000; 4000)
  BENCH_PROFILE   cargo profile of the programs (ci)
  BENCH_LAKE_BIN  the example bench_lake, built already
  HEADWATER_BIN   the program, built already: the memory of a compaction is that of `headwater table compact`
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cargo
from process import measure
from report import Report, machine_line

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "target" / "bench"
ORACLE = ROOT / "tests" / "oracle" / "oracle.sh"
RUNS = 10  # commits, and so sorted runs in each bucket
BUCKETS = 8


def number(name, default):
    return int(os.environ.get(name, default))


def build():
    """The crate's example and the program."""
    given = [os.environ.get(name) for name in ("BENCH_LAKE_BIN", "HEADWATER_BIN")]
    if all(given):
        return [Path(path).resolve() for path in given]
    folder = cargo.build("--workspace", "--bins", "--example", "bench_lake")
    built = [folder / "examples" / "bench_lake", folder / "headwater"]
    return [Path(path).resolve() if path else own for path, own in zip(given, built)]


class Lake:
    def __init__(self, folder, report):
        self.folder, self.report, (self.example, self.program) = folder, report, build()
        self.rows, self.rounds = number("ROWS", 2_000_000), number("BENCH_ROUNDS", 3)
        self.cache = Path(os.environ.get("HEADWATER_CACHE", ROOT / ".cache"))
        subprocess.run([ORACLE, "build"], check=True)
        subprocess.run([ROOT / "tests" / "pypaimon" / "read.sh", "build"], check=True)

    def path(self, table):
        return self.folder / "warehouse" / "lake.db" / table

    def forget(self, table):
        shutil.rmtree(self.path(table), ignore_errors=True)

    def ours(self, verb, table, *words):
        return [str(self.example), verb, str(self.folder / "warehouse"), f"lake.{table}", *map(str, words)]

    def java(self, verb, table, *words):
        return [str(ORACLE), verb, str(self.folder / "warehouse"), f"lake.{table}", *map(str, words)]

    def create(self, table, **options):
        self.forget(table)
        options = [f"{key}={value}" for key, value in options.items()]
        subprocess.run(self.ours("create", table, *options), check=True)

    def run(self, name, command, expected=None):
        """A whole process, measured; what it printed last, with the rows it must tell."""
        usage = measure(command, self.folder / "log", self.folder / "output")
        self.report.keep(name, usage)
        lines = (self.folder / "output").read_text().splitlines()
        told = json.loads(lines[-1]) if lines else {}
        if expected is not None and told.get("rows") != expected:
            raise SystemExit(f"bench: {name} told {told}, and {expected} rows were expected")
        return told

    def scanned(self, table):
        """Rows and a sum of them, as our reader sees them."""
        output = subprocess.run(self.ours("scan", table), check=True, capture_output=True, text=True).stdout
        told = json.loads(output)
        return told["rows"], told["sum"]

    def compare(self, name, ours, theirs, key, at_least):
        ratio = self.report.median(theirs, key) / self.report.median(ours, key)
        self.report.add(name, ratio, "x", at_least=at_least)

    def write(self):
        """Rows into level 0, a flush and a commit for each tenth of them."""
        for order in ("random", "ascending"):
            ours, theirs = (f"lake write, {order} keys: {side}" for side in ("headwater", "java"))
            every = -(-self.rows // RUNS)
            for _ in range(self.rounds):
                self.create("ours", bucket=BUCKETS)
                self.run(ours, self.ours("write", "ours", self.rows, every, order))
                self.create("theirs", bucket=BUCKETS)
                words = ["--rows", self.rows, "--every", every, "--order", order]
                self.run(theirs, self.java("bench", "theirs", *words))
            if self.scanned("ours") != self.scanned("theirs"):
                raise SystemExit("bench: the two tables differ")
            self.compare(f"lake write, {order} keys: CPU against Java Paimon", ours, theirs, "cpu_seconds", 4)

    def runs(self):
        """The table of ten sorted runs in each bucket, at `runs`."""
        self.create("runs", bucket=BUCKETS, **{"write-only": "true"})
        subprocess.run(self.ours("write", "runs", self.rows, -(-self.rows // RUNS), "random"), check=True, stdout=subprocess.DEVNULL)

    def compact(self):
        """All runs into the top level."""
        ours, theirs = "lake compact: headwater", "lake compact: java"
        self.runs()
        rows, total = self.scanned("runs")
        for _ in range(self.rounds):
            for name, command in [(ours, self.ours("compact", "copy")), (theirs, self.java("compact", "copy", "--full"))]:
                self.forget("copy")
                shutil.copytree(self.path("runs"), self.path("copy"))
                self.run(name, command, rows if name == ours else None)
                if self.scanned("copy") != (rows, total):
                    raise SystemExit(f"bench: other rows after {name}")
        self.forget("copy")
        self.compare("lake compact, 10 runs: CPU against Java Paimon", ours, theirs, "cpu_seconds", 3)

    def scan(self):
        """All rows of the ten runs, merged on read; without the start of the interpreter."""
        python = self.cache / "pypaimon" / "bin" / "python"
        scan = [str(python), str(ROOT / "tests" / "bench" / "scan.py"), str(self.folder / "warehouse"), "lake.runs"]
        if not self.path("runs").exists():
            self.runs()
        seconds, told = {"headwater": [], "pypaimon-rust": []}, {}
        for _ in range(self.rounds):
            for side, command in [("headwater", self.ours("scan", "runs")), ("pypaimon-rust", scan)]:
                told[side] = self.run(f"lake scan: {side}", command)
                seconds[side].append(told[side]["seconds"])
        same = [(side["rows"], side["sum"]) for side in told.values()]
        if same[0] != same[1]:
            raise SystemExit(f"bench: the readers differ: {told}")
        ours, theirs = (sorted(of)[len(of) // 2] for of in seconds.values())
        self.report.add("lake scan, 10 runs: headwater", ours, "s")
        self.report.add("lake scan, 10 runs: speed against pypaimon-rust", theirs / ours, "x", at_least=1)

    def commits(self):
        """Small commits, each followed by the compactions and the expiry that are due."""
        count = number("COMMITS", 2000)
        options = {"bucket": 1, "snapshot.num-retained.min": 5, "snapshot.num-retained.max": 20}
        self.create("commits", **options)
        told = self.run("lake commits: headwater", self.ours("commits", "commits", count, 100))
        hundreds = told["hundreds"]
        print("  seconds of each hundred:", hundreds)
        cpu = told["cpu_hundreds"]
        print("  CPU seconds of each hundred:", cpu)
        self.report.add(f"lake commits, {count} of 100 rows: the last 100 against the first", hundreds[-1] / hundreds[0], "x", at_most=1.3)
        # The first hundred has nothing to expire and hardly anything to compact.
        for at, name in enumerate(("first", "second")):
            self.report.add(f"lake commits, {count} of 100 rows: CPU of the last 500 against the {name} 100", sum(cpu[-5:]) / 5 / cpu[at], "x")
        files = sum(len(names) for _, _, names in os.walk(self.path("commits")))
        self.report.add("lake commits: files left", files, "files", at_most=500)

    def memory(self):
        """A large bucket, fully compacted by the program itself."""
        megabytes = number("BUCKET_MB", 1000)
        self.create("wide", bucket=1, **{"write-only": "true"})
        written = subprocess.run(self.ours("wide", "wide", megabytes, RUNS), check=True, capture_output=True, text=True).stdout
        size = json.loads(written)["bytes"] / 1e9
        name = f"lake compact, a bucket of {size:.1f} GB"
        command = [str(self.program), "table", "compact", str(self.folder / "warehouse"), "lake.wide", "--full"]
        self.report.keep(f"{name}: headwater", measure(command, self.folder / "log", self.folder / "output"))
        self.forget("wide")
        self.report.add(f"{name}: peak memory", self.report.raw[f"{name}: headwater"][0]["peak_mb"], "MB", at_most=256 * 1.048576)


MEASURES = {"write": Lake.write, "compact": Lake.compact, "scan": Lake.scan, "commits": Lake.commits, "memory": Lake.memory}


def take(folder, report, only=()):
    lake = Lake(folder, report)
    for name in only or MEASURES:
        print(f"lake {name}:", flush=True)
        MEASURES[name](lake)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"measures to take: {', '.join(MEASURES)} (default: all)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is not met")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(unknown)}")
    folder, results, report = OUTPUT / "lake", OUTPUT / "lake.json", Report()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    machine = machine_line()
    take(folder, report, arguments.only)
    shutil.rmtree(folder)
    report.write(results, machine)
    report.print_table(machine)
    print(f"\nwritten to {results}")
    if unmet := report.unmet():
        print("not met: " + "; ".join(unmet))
        sys.exit(1 if arguments.strict else 0)


if __name__ == "__main__":
    main()
