"""How the cost grows: with workers, tables, snapshots and an hour of checkpoints. Draws target/bench/growth-*.svg.

Environment:
  BENCH_GROWTH_TABLES   numbers of tables under steady changes (10,100,1000)
  BENCH_GROWTH_SECONDS  seconds of steady changes for each of them (20)
  BENCH_SNAPSHOTS       snapshots that a table gets (10000)
  BENCH_HOUR            commits of the hour (3600)
  BENCH_HOUR_ROWS       rows of the table that is updated (1000000)
  BENCH_HOUR_UPDATES    updates in each commit (100)
"""

import os
import re
import shutil
import statistics
import time
from pathlib import Path

import kernels
import tables
from job import Job
from plot import Line, draw
from server import DATABASE

OUTPUT = Path(__file__).resolve().parents[2] / "target" / "bench"
WORKERS = [1, 2, 4]
SMALL_ROWS = 100
ROUND_ROBIN = 20  # tables of a transaction


def number(name, default):
    return int(os.environ.get(name, default))


def take(bench):
    for part in PARTS.values():
        part(bench)


def workers(bench):
    """One table, read by more and more workers."""
    table, rows = tables.sysbench(), bench.rows
    bench.server.create("workers", table)
    bench.server.fill("workers", table, rows, log=False)
    for _ in range(bench.rounds):
        for count in WORKERS:
            job = Job(bench.binary, bench.server, bench.folder, "workers", "snapshot", parallelism=count)
            bench.report.keep(f"growth, {count} workers: headwater", job.start().wait())
            job.expect_rows(rows)
    bench.server.drop("workers")
    shutil.rmtree(bench.folder / "workers")
    rates = [rows / bench.report.median(f"growth, {count} workers: headwater", "seconds") for count in WORKERS]
    for count, rate in zip(WORKERS, rates):
        bench.report.add(f"growth: snapshot, {count} workers", rate, "rows/s")
    draw(OUTPUT / "growth-workers.svg", "Snapshot of one table (sysbench rows)", "workers", "million rows/s",
         [Line("rows/s", list(zip(WORKERS, (rate / 1e6 for rate in rates))))])


def many_tables(bench):
    """A change a second in each of so many tables, at checkpoints of a second: how long a checkpoint takes that has
    something of every table."""
    counts = [int(count) for count in os.environ.get("BENCH_GROWTH_TABLES", "10,100,1000").split(",")]
    points, cpu = [], []
    for count in counts:
        took, cpu_seconds = steady(bench, count)
        points.append((count, statistics.median(took)))
        cpu.append((count, cpu_seconds * 1000))
        print(f"  {count} tables: {len(took)} checkpoints, median {points[-1][1]:.0f} ms, CPU {cpu[-1][1]:.0f} ms a second", flush=True)
        bench.report.add(f"growth: checkpoint of {count} tables", points[-1][1], "ms")
        bench.report.add(f"growth: CPU of {count} tables, a change and a commit each a second", cpu_seconds, "s per second")
    (fewest, least), (most, longest) = points[0], points[-1]
    # Linear or better; what a checkpoint costs without any table makes the few look dear, never the many.
    bench.report.add(f"growth: checkpoint of {most} tables, a table, against {fewest}", (longest / most) / (least / fewest), "x", at_most=1)
    draw(OUTPUT / "growth-tables.svg", "A checkpoint with a change in every table", "tables", "milliseconds",
         [Line("time of a checkpoint", points), Line("CPU in a second", cpu)], logarithmic=True)


def steady(bench, count):
    """Milliseconds of each checkpoint with almost all tables in it, and CPU seconds in a second."""
    small, seconds = tables.sysbench(), number("BENCH_GROWTH_SECONDS", 20)
    names = [f"grow{i:04}" for i in range(count)]
    bench.server.create("grow_source", small)
    bench.server.fill("grow_source", small, SMALL_ROWS, log=False)
    bench.server.sql(f"USE {DATABASE}; SET sql_log_bin = 0; " + "".join(
        f"CREATE TABLE {name} LIKE grow_source; INSERT INTO {name} SELECT * FROM grow_source; " for name in names))
    job = Job(bench.binary, bench.server, bench.folder, "grow", "initial", "1s", tables=rf"{DATABASE}.grow\d+")
    process = job.start("--log-level", "headwater::job=debug,info")
    job.wait_for(process, lambda marker: len(marker["snapshots"]) == count)
    with bench.server.session() as session:
        began, cpu, done, second = time.monotonic(), process.cpu_seconds(), 0, 0
        while second < seconds:
            for start in range(0, count, ROUND_ROBIN):
                some = names[start:start + ROUND_ROBIN]
                updates = "; ".join(f"UPDATE {name} SET k = k + 1 WHERE id = {1 + second % SMALL_ROWS}" for name in some)
                session.run(f"BEGIN; {updates}; COMMIT")
                done += len(some)
                # Evenly over the second: no checkpoint finds but the half of the tables.
                time.sleep(max(0, began + second + (start + ROUND_ROBIN) / count - time.monotonic()))
            second += 1
        elapsed = time.monotonic() - began
        cpu = (process.cpu_seconds() - cpu) / elapsed
    job.wait_for(process, job.has_reached(bench.server.position()))
    process.terminate()
    process.wait()
    told = re.findall(r"checkpoint committed checkpoint=\d+ tables=(\d+) files=\d+ took_ms=(\d+)", (job.folder / "log").read_text())
    took = [int(milliseconds) for touched, milliseconds in told if int(touched) >= 0.8 * count][1:]
    if len(took) < 3:
        raise SystemExit(f"bench: {len(took)} checkpoints of {count} tables were seen; longer (BENCH_GROWTH_SECONDS) or a quieter machine")
    bench.server.sql(f"USE {DATABASE}; SET sql_log_bin = 0; " + "".join(f"DROP TABLE {name}; " for name in names))
    shutil.rmtree(job.folder)
    return took, cpu


def snapshots(bench):
    """A commit of forty rows, as the table's snapshots become more and none of them expires."""
    folder, example = bench.folder / "history", kernels.build()
    for name, file, warehouse in [("on disk", "snapshots", folder), ("in memory", "snapshots-memory", "memory")]:
        points = kernels.run(example, "history", warehouse, number("BENCH_SNAPSHOTS", 10_000))["commit_and_expiry_ms"]
        print(f"  {name}: " + ", ".join(f"{count} snapshots {took} ms + {expiry} ms" for count, took, expiry in points), flush=True)
        lines = [Line("commit", [point[:2] for point in points]), Line("expiry", [(count, expiry) for count, _, expiry in points])]
        draw(OUTPUT / f"growth-{file}.svg", f"A commit of 40 rows {name}, and the expiry after it that finds none", "snapshots of the table",
             "milliseconds", lines, logarithmic=True)
        for count, took, expiry in points:
            bench.report.add(f"growth: commit at {count} snapshots, {name}", took, "ms")
            bench.report.add(f"growth: expiry that finds none at {count} snapshots, {name}", expiry, "ms")
        bench.report.add(f"growth: commit at {points[-1][0]} snapshots against {points[0][0]}, {name}", points[-1][1] / points[0][1], "x", at_most=1.5)
    shutil.rmtree(folder)


def hour(bench):
    """An hour of checkpoints of a second, one after the other and so in less than an hour: what is left, and how much
    slower it is to read than the same table fully compacted."""
    rows, commits, updates = number("BENCH_HOUR_ROWS", 1_000_000), number("BENCH_HOUR", 3600), number("BENCH_HOUR_UPDATES", 100)
    example, merged, settled = kernels.build(), bench.folder / "hour", bench.folder / "settled"
    told = kernels.run(example, "hour", merged, rows, commits, updates)
    shutil.copytree(merged, settled)
    compacted = kernels.run(example, "settle", settled)
    seconds = {merged: [], settled: []}
    for _ in range(bench.rounds):
        for folder, taken in seconds.items():
            read = kernels.run(example, "read", 5, folder)
            if read["rows"] != rows:
                raise SystemExit(f"bench: {read['rows']} rows in {folder.name}, not {rows}")
            taken += read["cpu_seconds"]
    of_merged, of_settled = (statistics.mean(taken) for taken in seconds.values())
    name = f"growth: {commits} commits of {updates} updates in {rows} rows"
    report = bench.report
    report.add(f"{name}: time", told["seconds"][0], "s")
    report.add(f"{name}: CPU a commit, compaction and expiry included", told["cpu_seconds"][0] / commits * 1000, "ms")
    report.add(f"{name}: the last hundred commits against the first", told["last_ms"] / told["first_ms"], "x")
    report.add(f"{name}: compactions", told["compactions"], "")
    report.add(f"{name}: rows that compactions wrote for an update", told["compacted_rows"], "rows")
    report.add(f"{name}: data files of the newest snapshot", told["live_files"], "files")
    report.add(f"{name}: files in the folder, ten minutes of snapshots kept", told["files"], "files")
    report.add(f"{name}: bytes of the newest snapshot against compacted", told["live_bytes"] / compacted["live_bytes"], "x")
    report.add(f"{name}: CPU of merging on read", of_merged, "s")
    report.add(f"{name}: CPU of merging on read against compacted", of_merged / of_settled, "x", at_most=1.5)
    for folder in seconds:
        shutil.rmtree(folder)


PARTS = {"growth-workers": workers, "growth-tables": many_tables, "growth-snapshots": snapshots, "growth-hour": hour}
