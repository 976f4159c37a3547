#!/usr/bin/env python3
"""Headwater against what people would use instead, in turn on the same machine and server.

  capture   Debezium's engine, which only captures: its records are counted and thrown away. Headwater captures and writes
            the lake's tables.
  flink     Flink CDC with its sink for Paimon, where FLINK_HOME and FLINK_CDC_HOME are the folders of both (the latter
            with the connectors for MySQL and Paimon and their driver in lib/): else left out
  lake      Java Paimon's writer and compactor (lake.py)
  reading   pypaimon-rust (lake.py)

JVMs are measured from their start on, as users have them; the time to the first record is told apart.

Environment: that of run.py and lake.py, FLINK_HOME, FLINK_CDC_HOME.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import lake
import tables
from job import SERVER_IDS, Job
from process import Process, Usage
from report import machine_line
from run import OUTPUT, UPDATED_ROWS, Bench, build
from server import DATABASE, Server

HERE = Path(__file__).resolve().parent
DEBEZIUM = HERE / "peers" / "debezium.sh"
FLINK_PATIENCE_SECONDS = 1800
PROPERTIES = """\
name=bench
connector.class=io.debezium.connector.mysql.MySqlConnector
topic.prefix=bench
database.hostname={host}
database.port={port}
database.user={user}
database.password={password}
database.ssl.mode=disabled
driver.allowPublicKeyRetrieval=true
database.server.id={server_id}
database.include.list={database}
table.include.list={database}.{table}
include.schema.changes=false
snapshot.mode=initial
poll.interval.ms=10
offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory
schema.history.internal.file.filename={folder}/history
"""


class Debezium:
    """The engine and its offsets, which are put back between runs."""

    def __init__(self, server, folder, table):
        self.server, self.table = server, table
        self.folder, self.saved, self.log = folder / f"debezium-{table}", folder / f"debezium-{table}-saved", folder / "debezium.log"

    def run(self, records, *words):
        """Captures so many changes; its usage and what it told."""
        self.folder.mkdir(exist_ok=True)
        file, output = self.folder.with_suffix(".properties"), self.folder.with_suffix(".told")
        file.write_text(PROPERTIES.format(**self.server.settings, database=DATABASE, table=self.table, folder=self.folder,
                                          server_id=next(SERVER_IDS)))
        usage = Process([DEBEZIUM, file, str(records), *words], self.log, output).wait()
        told = json.loads(output.read_text())
        if told["records"] != records:
            raise SystemExit(f"bench: Debezium gave {told['records']} changes of {self.table} instead of {records}")
        return usage, told

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self):
        shutil.copytree(self.folder, self.saved)

    def restore(self):
        self.forget()
        shutil.copytree(self.saved, self.folder)


def keep(bench, measured, usage, told):
    bench.report.keep(f"{measured}: debezium", usage)
    # From the first record on: without the start of the JVM, of the connector and of the reading of schemas.
    after = Usage(told["seconds"] - told["start"], usage.cpu_seconds - told["start_cpu"], usage.peak_mb)
    bench.report.keep(f"{measured}: debezium from its first record", after)


def compare(bench, measured, peer, changes):
    report, ours, theirs = bench.report, f"{measured}: headwater", f"{measured}: {peer}"
    for side in (ours, theirs):
        report.add(f"{side}, rate", changes / report.median(side, "seconds"), "rows/s")
        report.add(f"{side}, CPU", report.median(side, "cpu_seconds") / changes * 1e6, "s per million rows")
        report.add(f"{side}, peak memory", max(run["peak_mb"] for run in report.raw[side]), "MB")
    for key, name in [("seconds", "time"), ("cpu_seconds", "CPU"), ("peak_mb", "memory")]:
        report.add(f"{measured}: {name} of {peer} against ours", report.median(theirs, key) / report.median(ours, key), "x")


def capture(bench):
    subprocess.run([DEBEZIUM, "build"], check=True)
    snapshot(bench)
    sysbench = tables.sysbench()
    catch_up(bench, "inserts", bench.rows, 1, lambda: bench.server.fill("inserts", sysbench, bench.rows))
    catch_up(bench, "updates", bench.updates, UPDATED_ROWS, lambda: bench.server.update(bench.updates, UPDATED_ROWS))


def snapshot(bench):
    table, rows, measured = tables.sysbench(), bench.rows, "peers, snapshot"
    bench.server.create("sysbench", table)
    bench.server.fill("sysbench", table, rows, log=False)
    job, peer = Job(bench.binary, bench.server, bench.folder, "sysbench", "snapshot"), Debezium(bench.server, bench.folder, "sysbench")
    for _ in range(bench.rounds):
        job.forget()
        bench.report.keep(f"{measured}: headwater", job.start().wait())
        job.expect_rows(rows)
        peer.forget()
        keep(bench, measured, *peer.run(rows))
    summary(bench, measured, rows)
    bench.server.drop("sysbench")


def catch_up(bench, name, changes, before, write):
    """A backlog, written while neither runs; the table holds `before` rows, with keys that are not written again."""
    table, measured = tables.sysbench(), f"peers, {name}"
    bench.server.create(name, table)
    bench.server.fill(name, table, before, log=False)
    if name == "inserts":
        bench.server.sql(f"USE {DATABASE}; SET sql_log_bin = 0; UPDATE {name} SET id = -id")
    job, peer = Job(bench.binary, bench.server, bench.folder, name, "initial", bench.interval), Debezium(bench.server, bench.folder, name)
    process = job.start()
    job.wait_for(process, job.holds_rows(before))
    process.terminate()
    process.wait()
    job.save()
    peer.forget()
    peer.run(before, "keep")
    peer.save()
    bench.server.new_log_file()
    write()
    end = bench.server.position()
    for _ in range(bench.rounds):
        job.restore()
        process = job.start()
        seconds, cpu = job.wait_for(process, job.has_reached(end)), process.cpu_seconds()
        process.terminate()
        bench.report.keep(f"{measured}: headwater", Usage(seconds, cpu, process.wait().peak_mb))
        peer.restore()
        keep(bench, measured, *peer.run(changes))
    summary(bench, measured, changes)
    bench.server.drop(name)


def summary(bench, measured, changes):
    compare(bench, measured, "debezium", changes)
    report = bench.report
    alone = f"{measured}: debezium from its first record"
    for key, name in [("seconds", "time"), ("cpu_seconds", "CPU")]:
        ratio = report.median(alone, key) / report.median(f"{measured}: headwater", key)
        report.add(f"{measured}: {name} of debezium from its first record on against all of ours", ratio, "x")


def flink(bench):
    """A snapshot by Flink CDC, by its own cluster in one process, until its table holds all rows."""
    home, cdc = os.environ.get("FLINK_HOME"), os.environ.get("FLINK_CDC_HOME")
    if not home or not cdc:
        print("  left out: FLINK_HOME and FLINK_CDC_HOME do not say where Flink and Flink CDC are")
        return
    table, rows, measured = tables.sysbench(), bench.rows, "peers, snapshot beside Flink CDC"
    bench.server.create("flinked", table)
    bench.server.fill("flinked", table, rows, log=False)
    ours = Job(bench.binary, bench.server, bench.folder, "flinked", "snapshot")
    theirs = Job(bench.binary, bench.server, bench.folder / "flink", "flinked", "initial")
    for _ in range(bench.rounds):
        ours.forget()
        bench.report.keep(f"{measured}: headwater", ours.start().wait())
        ours.expect_rows(rows)
        theirs.forget()
        usage = run_flink(bench, theirs, Path(home), Path(cdc), rows)
        bench.report.keep(f"{measured}: flink cdc", usage)
    compare(bench, measured, "flink cdc", rows)
    bench.server.drop("flinked")


def run_flink(bench, job, home, cdc, rows):
    """From the start of the cluster's process until the rows are committed."""
    conf = job.folder / "conf"
    shutil.rmtree(conf, ignore_errors=True)
    shutil.copytree(home / "conf", conf)
    file = next((conf / name for name in ("config.yaml", "flink-conf.yaml") if (conf / name).exists()), conf / "config.yaml")
    text = file.read_text() if file.exists() else ""
    text = re.sub(r"(?m)^(execution|taskmanager|parallelism|rest)\b.*(\n[ \t]+.*)*", "", text)
    file.write_text(f"{text}\nexecution.checkpointing.interval: 10s\ntaskmanager.numberOfTaskSlots: 4\nparallelism.default: 1\n"
                    "taskmanager.memory.process.size: 4g\njobmanager.memory.process.size: 1600m\n")
    pipeline = job.folder / "pipeline.yaml"
    values = {**job.values, "server_id": f"{next(SERVER_IDS) + 100_000}-{next(SERVER_IDS) + 110_000}"}
    pipeline.write_text((HERE / "peers" / "flink_cdc.yaml").read_text().format(**values, warehouse=job.warehouse))
    environment = {**os.environ, "FLINK_HOME": str(home), "FLINK_CONF_DIR": str(conf)}
    # A process of its own for the group, so that all of it ends with us.
    command = ["env", *(f"{key}={environment[key]}" for key in ("FLINK_HOME", "FLINK_CONF_DIR")), "setsid", "--wait",
               str(cdc / "bin" / "flink-cdc.sh"), "--use-mini-cluster", str(pipeline)]
    process = Process(command, job.folder / "log", job.folder / "output")
    try:
        while True:
            used = usage_below(process.child.pid)
            if job_holds(job, rows):
                return Usage(process.elapsed(), *used)
            if process.has_ended() or process.elapsed() > FLINK_PATIENCE_SECONDS:
                process.fail("ended, or took too long, before its table held all rows")
            time.sleep(0.1)
    finally:
        for pid in family(process.child.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def job_holds(job, rows):
    try:
        return job.committed_rows() == rows
    except (OSError, ValueError):
        return False


def family(pid):
    """A process and those below it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except (OSError, IndexError):
            pass
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def usage_below(pid):
    """CPU seconds and peak memory of a process and those below it, so far."""
    ticks = peak = 0
    for one in family(pid):
        try:
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
            peak += int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{one}/status").read_text())[1])
        except (OSError, TypeError):
            pass
    return ticks / os.sysconf("SC_CLK_TCK"), peak * 1024 / 1e6


def lake_half(bench):
    lake.take(bench.folder, bench.report, ["write", "compact"])


def reading(bench):
    lake.take(bench.folder, bench.report, ["scan"])


MEASURES = {"capture": capture, "flink": flink, "lake": lake_half, "reading": reading}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"measures to take: {', '.join(MEASURES)} (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(unknown)}")
    given = os.environ.get("HEADWATER_BIN")
    binary = Path(given).resolve() if given else build()
    results, folder = OUTPUT / "peers.json", OUTPUT / "peers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server = Server()
    try:
        machine = machine_line(server.version())
        server.create_tables()
        bench = Bench(binary, server, folder)
        for name in arguments.only or MEASURES:
            print(f"{name}:", flush=True)
            MEASURES[name](bench)
    finally:
        server.remove()
    shutil.rmtree(folder)
    bench.report.write(results, machine)
    bench.report.print_table(machine)
    print(f"\nwritten to {results}")


if __name__ == "__main__":
    main()
