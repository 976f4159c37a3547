"""Loads of other shapes: many small tables, steady changes all over, one large transaction, one large row.

Environment:
  BENCH_TABLES       small tables (1000)
  BENCH_STEADY       seconds of steady changes (30)
  BENCH_TRANSACTION  rows of the large transaction (10000000)
  BENCH_BLOB_MB      size of the large value, MiB (64)
"""

import os
import statistics
import threading
import time

import tables
from job import Job
from process import Usage
from server import DATABASE

SMALL_ROWS = 100
STEADY_TABLES, STEADY_CHANGES, STEADY_TRANSACTION = 50, 2000, 20
PATIENCE_SECONDS = 900


def number(name, default):
    return int(os.environ.get(name, default))


def take(bench):
    for part in PARTS.values():
        part(bench)


def many(bench):
    """A thousand tables of a hundred rows: from the start of the process to its end with everything committed."""
    count, small = number("BENCH_TABLES", 1000), tables.sysbench()
    names = [f"many{i:04}" for i in range(count)]
    bench.server.create("many_source", small)
    bench.server.fill("many_source", small, SMALL_ROWS, log=False)
    bench.server.sql(f"USE {DATABASE}; SET sql_log_bin = 0; " + "".join(
        f"CREATE TABLE {name} LIKE many_source; INSERT INTO {name} SELECT * FROM many_source; " for name in names))
    job = Job(bench.binary, bench.server, bench.folder, "many", "snapshot", tables=rf"{DATABASE}.many\d+")
    for _ in range(bench.rounds):
        job.forget()
        bench.report.keep("many tables: headwater", job.start().wait())
    folders = [job.warehouse / f"{DATABASE}.db" / name for name in names]
    files = [sum(path.is_file() for path in folder.rglob("*")) for folder in folders]
    if any(not (folder / "snapshot" / "LATEST").exists() for folder in folders):
        raise SystemExit("bench: tables are missing in the lake")
    report = bench.report
    report.add(f"{count} tables: start to all committed", report.median("many tables: headwater", "seconds"), "s", at_most=20)
    report.add(f"{count} tables: files a table", statistics.mean(files), "files", at_most=6)
    report.add(f"{count} tables: CPU", report.median("many tables: headwater", "cpu_seconds"), "s")
    peak(bench, "many tables", f"{count} tables", 256)
    bench.server.sql(f"USE {DATABASE}; SET sql_log_bin = 0; " + "".join(f"DROP TABLE {name}; " for name in names))


def steady(bench):
    """2,000 changes of rows a second over 50 tables, twenty in a transaction: from the source's commit until a checkpoint
    that holds it is committed, at an interval of a second."""
    seconds, small = number("BENCH_STEADY", 30), tables.sysbench()
    names = [f"steady{i:02}" for i in range(STEADY_TABLES)]
    for name in names:
        bench.server.create(name, small)
        bench.server.fill(name, small, 1000, log=False)
    job = Job(bench.binary, bench.server, bench.folder, "steady", "initial", "1s", tables=rf"{DATABASE}.steady\d+")
    process = job.start()
    job.wait_for(process, lambda marker: len(marker["snapshots"]) == STEADY_TABLES)
    commits, seen, over = [], {}, threading.Event()

    def watch():
        while not over.is_set():
            for path in (job.warehouse / ".headwater" / "bench-steady").glob("checkpoint-*.committed.json"):
                if path.name not in seen:
                    seen[path.name] = (time.time(), job.marker_position(path))
            time.sleep(0.005)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    with bench.server.session() as session:
        began, done = time.time(), 0
        while time.time() < began + seconds:
            name = names[done // STEADY_TRANSACTION % STEADY_TABLES]
            first = 1 + done * 7 % 900
            session.run(f"UPDATE {name} SET k = k + 1 WHERE id BETWEEN {first} AND {first + STEADY_TRANSACTION - 1}")
            done += STEADY_TRANSACTION
            if done % (STEADY_TRANSACTION * 10) == 0:
                position = session.position()
                commits.append((time.time(), position))
            ahead = began + done / STEADY_CHANGES - time.time()
            time.sleep(max(0, ahead))
        rate = done / (time.time() - began)
    job.wait_for(process, job.has_reached(bench.server.position()))
    time.sleep(0.1)
    over.set()
    watcher.join()
    process.terminate()
    usage = process.wait()
    bench.report.keep("steady: headwater", Usage(seconds, usage.cpu_seconds, usage.peak_mb))
    markers = sorted(seen.values(), key=lambda marker: marker[0])
    delays = []
    for moment, position in commits:
        visible = next((at for at, reached in markers if reached and reached >= position), None)
        if visible is None:
            raise SystemExit("bench: a transaction was never committed to the lake")
        delays.append(visible - moment)
    delays.sort()
    report = bench.report
    report.add("steady: changes a second that were made", rate, "rows/s")
    report.add("steady: commit to visible, median", statistics.median(delays), "s", at_most=1.0)
    report.add("steady: commit to visible, 99th percentile", delays[len(delays) * 99 // 100], "s", at_most=2.0)
    report.add("steady: CPU", usage.cpu_seconds / done * 1e6, "s per million changes")
    peak(bench, "steady", "steady", 256)
    for name in names:
        bench.server.drop(name)


def transaction(bench):
    """One transaction of many rows, tailed."""
    rows, table = number("BENCH_TRANSACTION", 10_000_000), tables.strings()
    bench.server.create("huge", table)
    job = Job(bench.binary, bench.server, bench.folder, "huge", "initial", "1s")
    process = job.start()
    job.wait_for(process, job.has_reached(bench.server.position()))
    bench.server.fill("huge", table, rows, batch=rows)
    end = bench.server.position()
    seconds = job.wait_for(process, job.has_reached(end))
    job.expect_rows(rows)
    process.terminate()
    usage = process.wait()
    bench.report.keep("huge transaction: headwater", Usage(seconds, usage.cpu_seconds, usage.peak_mb))
    peak(bench, "huge transaction", f"transaction of {rows:,} rows", 256)
    bench.server.drop("huge")


def blob(bench):
    """Rows with one large value, from the snapshot and from the log."""
    size = number("BENCH_BLOB_MB", 64)
    table = tables.Table({"id": ("INT NOT NULL", "n"), "v": ("LONGBLOB", f"REPEAT(CHAR(65 + n), {size} * 1048576 - 1024)")},
                         "PRIMARY KEY (id)")
    bench.server.create("blobs", table)
    bench.server.fill("blobs", table, 3, log=False)
    job = Job(bench.binary, bench.server, bench.folder, "blobs", "initial", "1s")
    process = job.start()
    job.wait_for(process, job.holds_rows(3))
    bench.server.sql(f"USE {DATABASE}; UPDATE blobs SET v = REVERSE(v); INSERT INTO blobs SELECT id + 3, v FROM blobs")
    seconds = job.wait_for(process, job.has_reached(bench.server.position()))
    process.terminate()
    usage = process.wait()
    bench.report.keep("blobs: headwater", Usage(seconds, usage.cpu_seconds, usage.peak_mb))
    peak(bench, "blobs", f"rows of {size} MiB", 256 + 4 * size * 1.048576)
    bench.server.drop("blobs")


def peak(bench, measured, name, at_most):
    highest = max(run["peak_mb"] for run in bench.report.raw[f"{measured}: headwater"])
    bench.report.add(f"{name}: peak memory", highest, "MB", at_most=at_most)


PARTS = {"many": many, "steady": steady, "transaction": transaction, "blob": blob}
