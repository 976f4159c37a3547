#!/usr/bin/env python3
"""Speed and memory of Headwater against the server's own clients, in turn on the same machine and server.

Environment:
  HEADWATER_BIN   the program to measure (built by cargo if not given)
  BENCH_PROFILE   cargo profile it is built with (ci)
  BENCH_ROWS      rows of the snapshot and of the inserts (2000000)
  BENCH_UPDATES   single-row updates (300000)
  BENCH_ROUNDS    runs of each side (3)
  BENCH_INTERVAL  checkpoint interval while catching up (1s)

and that of loads.py, kernels.py, growth.py and lake.py.
"""

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

import cargo
import growth
import kernels
import lake
import loads
import tables
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

    def snapshots(self):
        """Tables into the lake: a whole process each, from its start to its exit with everything committed."""
        for name, (table, speed, cpu) in tables.SNAPSHOTS.items():
            self.snapshot(f"snapshot {name}", name, table, speed, cpu)

    def snapshot(self, measured, name, table, speed_at_least, cpu_at_most):
        rows = int(self.rows * table.share)
        self.server.create(name, table)
        self.server.fill(name, table, rows, log=False)
        job = self.binary and Job(self.binary, self.server, self.folder, name, "snapshot")
        for _ in range(self.rounds):
            if job:
                job.forget()
                self.report.keep(f"{measured}: headwater", job.start().wait())
                job.expect_rows(rows)
            self.report.keep(f"{measured}: mysql --quick", measure(self.server.client_command(name), self.folder / "log"))
        self.compare(measured, "mysql --quick", rows, speed_at_least, cpu_at_most)
        self.server.drop(name)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def catch_up(self, name, write, changes, rows_before, rows_after, speed_at_least, cpu_at_most):
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
                # The yardstick ends at the end of the log. What a job still compacts then, and its end, is told apart.
                seconds, cpu = job.wait_for(process, job.has_reached(end)), process.cpu_seconds()
                process.terminate()
                usage = process.wait()
                self.report.keep(f"{name}: headwater", Usage(seconds, cpu, usage.peak_mb))
                self.report.keep(f"{name}: headwater until its end", usage)
                if rows_after:
                    job.expect_rows(rows_after)
            self.report.keep(f"{name}: mysqlbinlog -v", measure(yardstick, self.folder / "log"))
        self.compare(name, "mysqlbinlog -v", changes, speed_at_least, cpu_at_most)
        if job:
            whole, theirs = (self.report.median(f"{name}: {side}", "cpu_seconds") for side in ("headwater until its end", "mysqlbinlog -v"))
            self.report.add(f"{name}: CPU against mysqlbinlog -v, until the process has ended", whole / theirs, "x")
        self.server.drop(name)

    def inserts(self):
        table = tables.sysbench()
        self.server.create("inserts", table)
        write = lambda: self.server.fill("inserts", table, self.rows)
        self.catch_up("inserts", write, self.rows, 0, self.rows, speed_at_least=2.0, cpu_at_most=0.6)

    def updates_and_deletes(self):
        table = tables.sysbench()
        for name, changes, write in [("updates", self.updates, self.server.update), ("deletes", self.updates, self.server.delete)]:
            self.server.create(name, table)
            # Every tenth id is deleted with nine neighbours: the table must hold enough of them.
            rows = UPDATED_ROWS if name == "updates" else 2 * changes
            self.server.fill(name, table, rows, log=False)
            self.catch_up(name, lambda: write(changes, rows), changes, rows, None, speed_at_least=1.2, cpu_at_most=0.6)

    def start(self):
        """A tiny table: from the start of the process until its rows are committed."""
        table = tables.sysbench()
        self.server.create("ten", table)
        self.server.fill("ten", table, START_ROWS, log=False)
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

    def loads(self):
        """Many tables, steady changes, large transactions, large rows (loads.py)."""
        if self.binary:
            loads.take(self)

    def kernels(self):
        """The hot parts alone, from memory (kernels.py)."""
        if self.binary:
            kernels.take(self)

    def growth(self):
        """More workers, tables, snapshots, and an hour of checkpoints (growth.py)."""
        if self.binary:
            growth.take(self)

    def compare(self, name, yardstick, changes, speed_at_least, cpu_at_most):
        report, theirs, ours = self.report, f"{name}: {yardstick}", f"{name}: headwater"
        for side in [ours, theirs] if self.binary else [theirs]:
            report.add(f"{side}, rate", changes / report.median(side, "seconds"), "rows/s")
            report.add(f"{side}, CPU", report.median(side, "cpu_seconds") / changes * 1e6, "s per million rows")
        if not self.binary:
            return
        speed, cpu = (report.median(theirs, key) / report.median(ours, key) for key in ("seconds", "cpu_seconds"))
        report.add(f"{name}: rate against {yardstick}", speed, "x", at_least=speed_at_least)
        report.add(f"{name}: CPU against {yardstick}", 1 / cpu, "x", at_most=cpu_at_most)
        report.add(f"{name}: peak memory", max(run["peak_mb"] for run in report.raw[ours]), "MB", at_most=256)


def build():
    return cargo.build("--bin", "headwater") / "headwater"


def main():
    measures = {"snapshots": Bench.snapshots, "inserts": Bench.inserts, "updates": Bench.updates_and_deletes,
                "loads": Bench.loads, "start": Bench.start, "kernels": Bench.kernels, "growth": Bench.growth, "lake": Bench.lake}
    groups = list(measures)
    for module in (loads, growth):
        for name, take in module.PARTS.items():
            measures[name] = lambda bench, take=take: take(bench) if bench.binary else None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"measures to take: {', '.join(measures)} (default: all, with their parts)")
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
        default = [name for name in groups if binary or name != "lake"]
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
