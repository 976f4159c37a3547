"""A Headwater job: its file, its runs, and what its state folder says about progress."""

import itertools
import json
import re
import shutil
import time

import profiles
from server import DATABASE, at_or_after, file_number, parse_position

FILE = """\
source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: {password}
  tables: {tables}
  server-id: {server_id}
  scan.startup.mode: {mode}
sink:
  type: paimon
  catalog.properties.metastore: filesystem
  catalog.properties.warehouse: {warehouse}
pipeline:
  name: bench-{table}
  parallelism: {parallelism}
checkpoint:
  interval: {interval}
server:
  listen: off
"""
SERVER_IDS = itertools.count(7000)
PATIENCE_SECONDS = 900
POLL_SECONDS = 0.01


class Job:
    def __init__(self, binary, server, folder, table, mode, interval="10s", tables=None, parallelism=1):
        self.binary, self.table, self.folder = binary, table, folder / table
        self.warehouse, self.saved = self.folder / "warehouse", self.folder / "saved"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.warehouse.mkdir(parents=True)
        self.file = self.folder / "job.yaml"
        self.values = {**server.settings, "database": DATABASE, "table": table,
                       "tables": tables or f"{DATABASE}.{table}", "mode": mode, "interval": interval, "parallelism": parallelism}

    def start(self, *words):
        # Another id for each run: a server notices late that a replica has gone, and the next run does not wait.
        text = FILE.format(**self.values, warehouse=self.warehouse, server_id=next(SERVER_IDS))
        self.file.write_text(text)
        command = [self.binary, "run", self.file, *words]
        return profiles.start(command, self.folder / "log", f"{self.table}-{self.values['mode']}")

    def forget(self):
        """Back to a job that never ran."""
        shutil.rmtree(self.warehouse)
        self.warehouse.mkdir()

    def save(self):
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(self.warehouse, self.saved)

    def restore(self):
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.saved, self.warehouse)

    def committed(self):
        """The newest committed marker; None before the first."""
        state = self.warehouse / ".headwater" / f"bench-{self.table}"
        markers = sorted(state.glob("checkpoint-*.committed.json"))
        try:
            return json.loads(markers[-1].read_text()) if markers else None
        except (OSError, ValueError):  # pruned or half written: there is a newer one soon
            return None

    def marker_position(self, path):
        """Where in the log a committed marker stands, as a number of the file and an offset; None when it is gone."""
        try:
            file, offset = parse_position(json.loads(path.read_text())["position"])
            return file_number(file), offset
        except (OSError, ValueError, TypeError):
            return None

    def wait_for(self, process, reached):
        """Seconds from the start of a run to the first committed marker that says what is waited for."""
        while True:
            marker = self.committed()
            if marker and reached(marker):
                return process.elapsed()
            if process.has_ended():
                process.wait()
                process.fail("ended before it committed what it should have")
            if process.elapsed() > PATIENCE_SECONDS:
                process.fail(f"did not commit what it should have in {PATIENCE_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def holds_rows(self, rows):
        """What to wait for: a marker with a snapshot of the table that has so many rows."""
        return lambda marker: f"{DATABASE}.{self.table}" in marker["snapshots"] and self.committed_rows() == rows

    def has_reached(self, end):
        """What to wait for: a marker at or after a position of the log."""
        def reached(marker):
            position = parse_position(marker["position"])
            return position is not None and at_or_after(position, end)
        return reached

    def committed_rows(self):
        """Rows in the files of the table's newest snapshot."""
        folder = self.warehouse / f"{DATABASE}.db" / self.table / "snapshot"
        numbers = [int(found[1]) for path in folder.glob("*") if (found := re.fullmatch(r"snapshot-(\d+)", path.name))]
        return json.loads((folder / f"snapshot-{max(numbers)}").read_text())["totalRecordCount"]

    def expect_rows(self, rows):
        """Refuses a run that is fast because it lost rows."""
        found = self.committed_rows()
        if found != rows:
            raise SystemExit(f"bench: {self.table} holds {found:,} rows in the lake, not {rows:,}")
