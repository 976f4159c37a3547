#!/usr/bin/env python3
"""Speed and memory of Headwater against the server's own clients, in turn on the same machine and server.

Environment:
  HEADWATER_BIN   the program to measure (built by cargo if not given)
  BENCH_PROFILE   cargo profile it is built with (ci)
  BENCH_ROWS      rows of the snapshot and of the inserts (2000000)
  BENCH_UPDATES   single-row updates (300000)
  BENCH_ROUNDS    runs of each side (3)
  BENCH_INTERVAL  checkpoint interval while catching up (1s)

and that of lake.py.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import lake
from job import Job
from process import Usage, measure
from report import Report, machine_line
from server import Server

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "target" / "bench"
UPDATED_ROWS = 100_000
START_ROWS = 10


def number(name, default):
    return int(os.environ.get(name, default))


class Bench:
    def __init__(self, binary, server, folder):
        self.binary, self.server, self.folder = binary, server, folder
        self.rows = number("BENCH_ROWS", 2_000_000)
        self.updates = number("BENCH_UPDATES", 300_000)
        self.rounds = number("BENCH_ROUNDS", 3)
        self.interval = os.environ.get("BENCH_INTERVAL", "1s")
        self.report = Report()

    def snapshot(self):
        """A table of rows into the lake: a whole process, from its start to its exit with everything committed."""
        self.server.fill("sbtest1", self.rows, log=False)
        job = self.binary and Job(self.binary, self.server, self.folder, "sbtest1", "snapshot")
        for _ in range(self.rounds):
            if job:
                job.forget()
                self.report.keep("snapshot: headwater", job.start().wait())
                job.expect_rows(self.rows)
            self.report.keep("snapshot: mysql --quick", measure(self.server.client_command("sbtest1"), self.folder / "log"))
        self.compare("snapshot", "mysql --quick", self.rows, speed_at_least=0.8, cpu_at_most=1.5)

    def catch_up(self, name, write, changes, rows_before, rows_after=None):
        """A backlog of the log into the lake, written while the job was stopped: until a checkpoint that holds all of
        it is committed."""
        job = self.binary and Job(self.binary, self.server, self.folder, name, "initial", self.interval)
        if job:
            process = job.start()
            job.wait_for(process, job.holds_rows(rows_before) if rows_before else job.has_reached(self.server.position()))
            process.terminate()
            process.wait()
            job.save()
        first = self.server.new_log_file()
        write()
        end = self.server.position()
        yardstick = self.server.mysqlbinlog_command(first)
        for _ in range(self.rounds):
            if job:
                job.restore()
                process = job.start()
                seconds = job.wait_for(process, job.has_reached(end))
                process.terminate()
                usage = process.wait()
                self.report.keep(f"{name}: headwater", Usage(seconds, usage.cpu_seconds, usage.peak_mb))
                if rows_after:
                    job.expect_rows(rows_after)
            self.report.keep(f"{name}: mysqlbinlog -v", measure(yardstick, self.folder / "log"))
        self.compare(name, "mysqlbinlog -v", changes, speed_at_least=1.0)

    def inserts(self):
        self.catch_up("inserts", lambda: self.server.fill("inserts", self.rows), self.rows, 0, self.rows)

    def single_updates(self):
        self.server.fill("updates", UPDATED_ROWS, log=False)
        self.catch_up("updates", lambda: self.server.update(self.updates, UPDATED_ROWS), self.updates, UPDATED_ROWS)

    def start(self):
        """A tiny table: from the start of the process until its rows are committed."""
        self.server.fill("ten", START_ROWS, log=False)
        if not self.binary:
            return
        job = Job(self.binary, self.server, self.folder, "ten", "initial")
        for _ in range(self.rounds):
            job.forget()
            process = job.start()
            seconds = job.wait_for(process, job.holds_rows(START_ROWS))
            process.terminate()
            usage = process.wait()
            self.report.keep("start: headwater", Usage(seconds, usage.cpu_seconds, usage.peak_mb))
        self.report.add("start to first committed row", self.report.median("start: headwater", "seconds"), "s", at_most=1.5)

    def lake(self):
        """The lake's engine alone, against other engines (lake.py)."""
        lake.take(self.folder, self.report)

    def compare(self, name, yardstick, changes, speed_at_least, cpu_at_most=None):
        report, theirs, ours = self.report, f"{name}: {yardstick}", f"{name}: headwater"
        for side in [ours, theirs] if self.binary else [theirs]:
            report.add(f"{side}, rate", changes / report.median(side, "seconds"), "rows/s")
            report.add(f"{side}, CPU", report.median(side, "cpu_seconds") / changes * 1e6, "s per million rows")
        if not self.binary:
            return
        speed, cpu = (report.median(theirs, key) / report.median(ours, key) for key in ("seconds", "cpu_seconds"))
        report.add(f"{name}: rate against {yardstick}", speed, "x", at_least=speed_at_least)
        report.add(f"{name}: CPU against {yardstick}", 1 / cpu, "x", at_most=cpu_at_most)
        report.add(f"{name}: peak memory", max(run["peak_mb"] for run in report.raw[ours]), "MB", at_most=400)


def build():
    profile = os.environ.get("BENCH_PROFILE", "ci")
    command = ["cargo", "build", "--profile", profile, "--locked", "--bin", "headwater"]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit("bench: the program cannot be built; cargo says why above")
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    return target / {"dev": "debug", "test": "debug", "bench": "release"}.get(profile, profile) / "headwater"


def main():
    measures = {"snapshot": Bench.snapshot, "inserts": Bench.inserts, "updates": Bench.single_updates, "start": Bench.start,
                "lake": Bench.lake}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"measures to take: {', '.join(measures)} (default: all)")
    parser.add_argument("--yardsticks", action="store_true", help="measure the server's clients only")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is not met")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(measures):
        parser.error(f"no such measure: {', '.join(unknown)}")

    given = os.environ.get("HEADWATER_BIN")
    binary = None if arguments.yardsticks else Path(given).resolve() if given else build()
    results, folder = OUTPUT / "results.json", OUTPUT / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    server = Server()
    try:
        machine = machine_line(server.version())
        server.create_tables()
        bench = Bench(binary, server, folder)
        default = [name for name in measures if binary or name != "lake"]
        for name in arguments.only or default:
            print(f"{name}:", flush=True)
            measures[name](bench)
    finally:
        server.remove()
    shutil.rmtree(folder)  # kept where a measure fails: it holds the logs
    bench.report.write(results, machine)
    bench.report.print_table(machine)
    print(f"\nwritten to {results}")
    if unmet := bench.report.unmet():
        print("not met: " + "; ".join(unmet))
        raise SystemExit(1 if arguments.strict else 0)


if __name__ == "__main__":
    main()
